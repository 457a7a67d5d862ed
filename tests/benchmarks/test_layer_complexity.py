"""What is measured already is not measured again, and what was not asked for is not reported."""

import json

import layer_complexity
from layer_complexity_report import CONCERNED, sizes

SWEEPS: dict[str, tuple[int, ...]] = {"k": (3, 5)}


def test_measurements_of_another_batch_or_size_stay_out_of_the_report(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    seconds = {"seconds": 1.0, "cpu_seconds": 1.0, "megabytes": 1.0}
    there = [
        {"swept": "k", "layer": layer, "batch": batch, **sizes("k", k), **seconds}
        for layer in CONCERNED["k"]
        for batch, k in ((1, 3), (8, 3), (1, 9))
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in there), encoding="utf-8")
    measured = []

    def measure(case, repeats):
        measured.append((case["layer"], case["k"]))
        return {**seconds, "seconds": 2.0}

    monkeypatch.setattr(layer_complexity.multiprocessing, "get_context", lambda _: Processes())
    monkeypatch.setattr(layer_complexity, "measure", measure)
    results = layer_complexity.measure_all(path, SWEEPS, batch=1, repeats=1)
    assert measured == [(layer, 5) for layer in CONCERNED["k"]]
    found = [(row["layer"], row["batch"], row["k"], row["seconds"]) for row in results]
    expected = [(layer, 1, *point) for layer in CONCERNED["k"] for point in ((3, 1.0), (5, 2.0))]
    assert found == expected
    # What was asked for before stays in the file.
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(there) + len(measured)


class Processes:
    """Runs in this process what was for another."""

    def Pool(self, _):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def apply(self, function, arguments):
        return function(*arguments)
