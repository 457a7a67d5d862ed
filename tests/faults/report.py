"""Kills the whole pipeline at random moments: `python -m tests.faults.report --kills 200`.

A life is a pipeline that is killed some times, started again by the same commands each time, and
then let go to its end, which has to be that of a pipeline that nothing happened to: all files of
the data, all tensors of all checkpoints, all points of TensorBoard's curves. Lives that have ended
are in the report already and are not led again when the command is repeated.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.injection import Fault
from tests.faults.pipeline import Outcome, attempt, fingerprint, write_corpus

_USER_ERROR = 2

# To which visit of a place a kill is put off at most: few, so that a life has room for many kills.
_VISITS = {
    "step": 9,
    "evaluation": 1,
    "checkpoint": 3,
    "data preparation": 1,
    "restoring": 2,
    "rewinding": 1,
}


def main() -> int:
    """Leads the lives; status 0 where every one ended as it should."""
    arguments = _parse()
    from t2t_repro import experiment  # noqa: F401 (imported once, for all children)

    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="faults-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus(folder)
    report = folder / "report.jsonl"
    lives = (
        [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    )
    reference = _fresh(folder / "reference")
    whole = attempt(reference)
    if whole.status:
        print((reference / "log").read_text(), file=sys.stderr)
        return 1
    expected = fingerprint(reference)
    print(f"uninterrupted: {whole.seconds:.1f} s, {len(expected)} things to compare", flush=True)
    while (done := sum(len(life["kills"]) for life in lives)) < arguments.kills:
        random_numbers = random.Random(f"{arguments.seed} {len(lives)}")
        count = min(arguments.kills_per_life, arguments.kills - done)
        life = _lead(_fresh(folder / "life"), random_numbers, count, whole, expected)
        lives.append(life)
        with report.open("a") as file:
            file.write(json.dumps(life) + "\n")
        _print_life(len(lives), life, done + len(life["kills"]), arguments.kills)
        if life["differences"]:
            shutil.copytree(folder / "life", folder / f"life-{len(lives)}-differs")
    _print_summary(lives)
    return int(any(life["differences"] for life in lives))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--kills_per_life", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="of the report; a new one below /tmp by default")
    return parser.parse_args()


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _lead(
    folder: Path,
    random_numbers: random.Random,
    count: int,
    whole: Outcome,
    expected: dict[str, str],
) -> dict:
    kills: list[str] = []
    wrong: list[str] = []
    seconds = 0.0
    last = None
    while len(kills) < count and not wrong:
        fault = _draw(random_numbers, whole)
        outcome = attempt(folder, fault)
        seconds += outcome.seconds
        if outcome.status == 0:
            # It was over before the moment came.
            last = outcome
            break
        kills.append(f"{'full disk' if fault.full_disk else 'killed'} in {outcome}")
        if outcome.status != (_USER_ERROR if fault.full_disk else -signal.SIGKILL):
            wrong.append(f"{kills[-1]}: status {outcome.status}")
        if random_numbers.random() < 0.3:
            kills[-1] += _spoil_newest_checkpoint(folder, random_numbers)
    if last is None:
        last = attempt(folder)
        seconds += last.seconds
    found = fingerprint(folder)
    differences = wrong
    if last.status:
        differences.append(f"{last.stage} ended with status {last.status}")
    differences += [
        key for key in sorted(expected.keys() | found.keys()) if expected.get(key) != found.get(key)
    ]
    return {"kills": kills, "differences": differences, "seconds": seconds}


def _draw(random_numbers: random.Random, whole: Outcome) -> Fault:
    """A kill at a random time, file operation or place, or a full disk; perhaps a wrong clock."""
    clock = random_numbers.choice((None, -86400.0, 86400.0))
    # Early in most cases, as little is left to be done after some starts; at times late.
    early = random_numbers.random() ** 3
    kind = random_numbers.choice(("seconds", "write", "place", "place", "full_disk"))
    if kind == "seconds":
        return Fault(seconds=early * whole.seconds, clock=clock)
    if kind == "place":
        place = random_numbers.choice(tuple(_VISITS))
        visit = random_numbers.randint(1, _VISITS[place])
        return Fault(place=place, visit=visit, delay=random_numbers.uniform(0, 0.05), clock=clock)
    number = 1 + int(early * whole.writes)
    if kind == "write":
        return Fault(write=number, clock=clock)
    return Fault(full_disk=number, clock=clock)


def _spoil_newest_checkpoint(folder: Path, random_numbers: random.Random) -> str:
    """Cuts or changes one of its files, if there is another checkpoint; says what was done."""
    indices = (folder / "model" / "checkpoints").glob("step-*.index")
    found = sorted(indices, key=lambda path: int(path.stem.split("-")[1]))
    if len(found) < 2:
        return ""
    path = random_numbers.choice([*found[-1].parent.glob(f"{found[-1].stem}.*")])
    content = bytearray(path.read_bytes())
    if random_numbers.random() < 0.5:
        content = content[: random_numbers.randrange(len(content))]
    else:
        content[random_numbers.randrange(len(content))] ^= 1 << random_numbers.randrange(8)
    path.write_bytes(content)
    return ", newest checkpoint spoilt"


def _print_life(number: int, life: dict, done: int, kills: int) -> None:
    verdict = f"DIFFERS: {', '.join(life['differences'][:5])}" if life["differences"] else "equal"
    print(
        f"life {number}: {len(life['kills'])} kills in {life['seconds']:.0f} s, {verdict} "
        f"({done}/{kills})",
        flush=True,
    )


def _print_summary(lives: list[dict]) -> None:
    places = Counter(kill for life in lives for kill in life["kills"])
    for place, count in places.most_common():
        print(f"  {count:4d}  {place}")
    bad = sum(bool(life["differences"]) for life in lives)
    print(
        f"{places.total()} kills in {len(lives)} lives: {len(lives) - bad} ended in the bytes of "
        f"the uninterrupted run, {bad} did not"
    )


if __name__ == "__main__":
    sys.exit(main())
