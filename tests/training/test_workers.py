"""Workers and their devices: who takes part, and what they agree on, in two processes."""

import json
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.model.settings import LayerConfig
from t2t_repro.training.signals import SIGNALS
from t2t_repro.training.workers import find_workers, own_replicas
from tests.commands import said_by
from tests.training.two_processes import run_workers


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)


def tf_config(jobs, kind="worker", index=0):
    task = {"type": kind, "index": index}
    return json.dumps({"cluster": jobs, "task": task, "environment": "cloud"})


def found():
    workers = find_workers()
    return workers.count, workers.index, workers.is_chief


def test_one_process_is_a_chief():
    workers = find_workers()
    assert found() == (1, 0, True)
    with workers.connected(), workers.chief_first():
        assert workers.gather({"a": 1}) == [{"a": 1}]
    workers.check_same("x", 1)
    assert workers.strategy is None


@pytest.mark.parametrize(
    ("jobs", "kind", "index", "expected"),
    [
        ({"worker": ["a:1", "b:1"]}, "worker", 0, (2, 0, True)),
        ({"worker": ["a:1", "b:1"]}, "worker", 1, (2, 1, False)),
        ({"worker": ["b:1", "c:1"], "chief": ["a:1"]}, "worker", 1, (3, 2, False)),
        ({}, "worker", 0, (1, 0, True)),
    ],
)
def test_tf_config(monkeypatch, jobs, kind, index, expected):
    monkeypatch.setenv("TF_CONFIG", tf_config(jobs, kind, index))
    assert found() == expected


TWO = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize("text", [tf_config(TWO, index=2), tf_config(TWO, "evaluator"), "{"])
def test_another_tf_config_is_refused(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match="TF_CONFIG is"):
        find_workers()


SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "n[9-10]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


def test_slurm(monkeypatch):
    """Every task is another worker, also where machines sort by name otherwise than by number."""
    indices = []
    for rank, (node, local) in enumerate([("n9", 0), ("n9", 1), ("n10", 0), ("n10", 1)]):
        own = {"SLURM_PROCID": str(rank), "SLURMD_NODENAME": node, "SLURM_LOCALID": str(local)}
        for name, value in {**SLURM, **own}.items():
            monkeypatch.setenv(name, value)
        workers = find_workers()
        assert workers._addresses[workers.index] == f"{node}:{12007 + local}"
        indices.append(workers.index)
    assert sorted(indices) == [0, 1, 2, 3]
    # A batch script has the variables of the job, but none of a step.
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    assert found() == (1, 0, True)


def test_what_two_workers_agree_on(tmp_path):
    said_by(__name__, str(tmp_path))
    of_workers = [json.loads((tmp_path / f"{index}.json").read_text()) for index in range(2)]
    assert [each["index"] for each in of_workers] == [0, 1]
    lines = [["ä"], ["Übersetzung"] * 100_000]
    for each in of_workers:
        assert each["gathered"] == lines
        assert each["error"].startswith('worker 1 has lines ["c"], but worker 0 has ["b"]: ')
        assert each["error of the chief"] == "no room"
    # The chief leaves the block before the other enters it.
    assert of_workers[0]["block"][1] <= of_workers[1]["block"][0]


def agree(folder, index):
    """What each of the two does; writes down what it has seen."""
    # Settings are made before workers connect, which TensorFlow allows before it computes.
    LayerConfig()
    workers = find_workers()
    seen: dict[str, Any] = {"index": workers.index}
    handlers = [*map(signal.getsignal, SIGNALS)]
    with workers.connected():
        assert [*map(signal.getsignal, SIGNALS)] == handlers
        seen["gathered"] = workers.gather(["Übersetzung"] * 100_000 if index else ["ä"])
        with workers.chief_first():
            began = time.monotonic()
            time.sleep(0.2)
            seen["block"] = began, time.monotonic()
        with pytest.raises(UserError) as error:
            workers.check_same("lines", ["a", "c" if index else "b"])
        seen["error"] = str(error.value)
        with pytest.raises(UserError) as error:
            fail_on_the_chief(workers)
        seen["error of the chief"] = str(error.value)
    (folder / f"{index}.json").write_text(json.dumps(seen))


def fail_on_the_chief(workers):
    with workers.chief_first():
        assert workers.is_chief, "nobody follows where the chief has failed"
        raise UserError("no room")


# Devices


def test_replicas_are_counted_through_all_workers(monkeypatch):
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:1", "c:1"]})
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", SimpleNamespace)
    found = []
    for number in range(3):
        resolver = SimpleNamespace(cluster_spec=lambda: spec, task_id=number)
        strategy: Any = SimpleNamespace(cluster_resolver=resolver, num_replicas_in_sync=12)
        found.append(own_replicas(strategy))
    assert found == [range(4), range(4, 8), range(8, 12)]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    assert run_workers(2, lambda index: agree(place, index)) == [0, 0]
