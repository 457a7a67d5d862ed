"""Kills one of several workers, again and again: `python -m tests.faults.several_workers`.

A life is a training by as many processes on this machine as is drawn anew at every start. A worker
is killed (SIGKILL), or asked to end (SIGTERM), at an update or at a moment; with --network, each is
on a machine of its own, whose cable may be cut instead. The others, and who is cut off, have to end
by themselves within a minute, with 143; then all are started again. In the end, weights, Adam's
moments and the dev scores have to be within 1e-5 of those of one process that nothing happened to.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import random
import runpy
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.faults.network import Network
from tests.faults.pipeline import EXPERIMENT, write_corpus
from tests.processes import in_child

TOLERANCE = 1e-5
CUT = 0  # No signal has this number.
_SECONDS_TO_END = 60
_BINDINGS = (
    "choose_strategy.cpu_replicas = 1",
    "Checkpoints.every_steps = 2",
    # With a rate of 0.1 the order of a sum makes a difference of 1e-3 after 30 updates.
    "TransformerSchedule.constant = 0.02",
)


class Blow(NamedTuple):
    """What happens to one of the workers.

    Attributes:
        worker: its index.
        number: of the signal; or CUT, which takes its machine off the network.
        update: of this start, which it comes in; 0 is just before TensorFlow's own start; or None.
        seconds: after the start.
    """

    worker: int
    number: int
    update: int | None = None
    seconds: float = 0.0


class Start(NamedTuple):
    """How the workers of one start ended.

    Attributes:
        statuses: of each: 0, or minus the signal that killed it.
        seconds: between the first end, or the cut, and the last end.
    """

    statuses: list[int]
    seconds: float


def train(
    folder: Path,
    count: int,
    steps: int,
    blow: Blow | None = None,
    network: Network | None = None,
    flags_of_last: Sequence[str] = (),
) -> Start:
    """Starts so many workers on the experiment of a folder, and waits until all have ended.

    Each writes folder/log.<index>. This process must not have used TensorFlow.

    Args:
        folder: of the run.
        count: of workers.
        steps: to train.
        blow: what happens to one of them.
        network: with a machine for each; this one's loopback otherwise.
        flags_of_last: more flags for the last worker.

    Raises:
        TimeoutError: one is lost, and the others do not end.
    """
    folder.mkdir(exist_ok=True)
    if network:
        network.mend()
    addresses = network.addresses[:count] if network else free_addresses(count)
    striker = _Striker(blow, network)
    children: dict[int, int] = {}
    for index in range(count):
        child = os.fork()
        if not child:
            flags = flags_of_last if index == count - 1 else ()
            _work(folder, addresses, index, steps, striker, flags)
        children[child] = index
    statuses, ends = [0] * count, list[float]()
    while children:
        striker.strike_in_time(children)
        now = time.monotonic()
        if striker.has_cut.is_set() and not ends:
            ends.append(now)
        if ends and now > ends[0] + _SECONDS_TO_END:
            for child in children:
                os.kill(child, signal.SIGKILL)
            raise TimeoutError(f"{folder}: workers {sorted(children.values())} do not end")
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            ends.append(now)
            statuses[children.pop(child)] = os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return Start(statuses, ends[-1] - ends[0])


class _Striker:
    """Strikes the one whom a blow is for.

    Attributes:
        network: of the workers, if they have one.
        has_cut: set when a cable is cut; by any process.
    """

    def __init__(self, blow: Blow | None, network: Network | None) -> None:
        self.network = network
        self.has_cut = multiprocessing.Event()
        self._blow = blow
        self._began = time.monotonic()

    def strike_in_time(self, children: dict[int, int]) -> None:
        """Strikes one of the children (process: worker) if it is time to."""
        blow = self._blow
        if blow and blow.update is None and time.monotonic() > self._began + blow.seconds:
            self._blow = None
            for child in [child for child, index in children.items() if index == blow.worker]:
                self._strike(blow, child)

    def strike_at_start(self, worker: int) -> None:
        """Has this process, a worker, struck when all have come, and TensorFlow is to start."""
        blow = self._blow
        if not blow or blow.update != 0 or blow.worker != worker:
            return
        from t2t_repro import experiment

        inner = experiment.choose_strategy

        def call(*arguments: Any) -> Any:
            self._strike(blow, os.getpid())
            return inner(*arguments)

        setattr(experiment, "choose_strategy", call)  # noqa: B010 (mypy)

    def strike_at_update(self, worker: int) -> None:
        """Has this process, a worker, struck when it is about to make the update of the blow."""
        blow = self._blow
        if not blow or not blow.update or blow.worker != worker:
            return
        from t2t_repro.training.train_step import TrainStep

        inner, calls = TrainStep.__call__, itertools.count(1)

        def call(*arguments: Any) -> Any:
            if next(calls) == blow.update:
                self._strike(blow, os.getpid())
            return inner(*arguments)

        setattr(TrainStep, "__call__", call)  # noqa: B010 (mypy)

    def _strike(self, blow: Blow, process: int) -> None:
        if blow.number == CUT and self.network:
            self.network.cut(blow.worker)
            self.has_cut.set()
        else:
            os.kill(process, blow.number)


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine that nobody uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def _work(
    folder: Path,
    addresses: list[str],
    index: int,
    steps: int,
    striker: _Striker,
    flags: Sequence[str],
) -> None:
    """A worker's whole life; does not return."""
    status: int | str | None = 1
    try:
        if striker.network:
            striker.network.move_to(index)
        striker.strike_at_start(index)
        striker.strike_at_update(index)
        os.chdir(folder)
        log = os.open(f"log.{index}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if len(addresses) > 1:
            task = {"type": "worker", "index": index}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        bindings = [
            f"--gin_param={binding}"
            for binding in (*_BINDINGS, f"TrainingSchedule.steps = {steps}")
        ]
        sys.argv = ["trainer", *EXPERIMENT, "--model_dir=model", *bindings, *flags]
        runpy.run_module("t2t_repro.trainer", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)


def end_of(folder: Path) -> dict[str, Any]:
    """What the last checkpoint of a folder's run holds: arrays, and the run's state."""
    file = folder / "end.npz"
    if in_child(lambda: _write_end(folder, file)):
        raise FileNotFoundError(f"{folder} has no checkpoint to read")
    with np.load(file) as arrays:
        return dict(arrays)


def _write_end(folder: Path, file: Path) -> None:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder / "model" / "checkpoints"))
    found: dict[str, Any] = {}
    for name, kind in reader.get_variable_to_dtype_map().items():
        if name.startswith("state/"):
            state = json.loads(reader.get_tensor(name))
            numbers = {key: value for key, value in state.items() if isinstance(value, int | float)}
            found |= {f"state {key}": np.array(value, float) for key, value in numbers.items()}
        elif kind != tf.string:
            found[name] = reader.get_tensor(name)
    np.savez(file, **found)


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The greatest difference between any two numbers; infinite where other things are there."""
    # How often a checkpoint was written says nothing of the training.
    names = (ours.keys() | theirs.keys()) - {"save_counter/.ATTRIBUTES/VARIABLE_VALUE"}
    if any(name not in ours or name not in theirs for name in names):
        return math.inf
    gaps = [np.abs(np.subtract(ours[n], theirs[n], dtype=float)).max(initial=0) for n in names]
    return float(max(gaps))


def _draw(random_numbers: random.Random, count: int, can_cut: bool) -> Blow:
    worker = random_numbers.randrange(count)
    cuts = (CUT, CUT, CUT) if can_cut and count > 1 else ()
    number = random_numbers.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, *cuts))
    if random_numbers.random() < 0.3:
        return Blow(worker, number, seconds=random_numbers.uniform(1, 30))
    return Blow(worker, number, update=random_numbers.randint(0, 12))


def _lead(
    folder: Path,
    arguments: argparse.Namespace,
    random_numbers: random.Random,
    network: Network | None,
) -> int:
    """Starts and strikes workers until so many blows have fallen, then lets them end; the blows."""
    fallen = 0
    while True:
        count = random_numbers.choice(arguments.workers)
        is_last = fallen == arguments.blows
        blow = None if is_last else _draw(random_numbers, count, can_cut=network is not None)
        start = train(folder, count, arguments.steps, blow, network)
        print(f"{count} workers, {blow}: {start.statuses}, {start.seconds:.1f} s apart", flush=True)
        if not any(start.statuses):
            return fallen
        # Before TensorFlow's start has met the others, SIGKILL alone ends it: `startup_watchdog`.
        if is_last or set(start.statuses) - {143, -signal.SIGKILL}:
            raise RuntimeError(f"{folder}: {start.statuses}; see its logs")
        fallen += 1


def main() -> int:
    """Leads the lives; status 0 where every one ended as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4], help="drawn from these")
    parser.add_argument("--lives", type=int, default=3)
    parser.add_argument("--blows", type=int, default=4, help="in each life")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--network", action="store_true", help="a machine for each; see above")
    arguments = parser.parse_args()
    from t2t_repro import experiment  # noqa: F401 (imported once, for all children)

    folder = Path(tempfile.mkdtemp(prefix="workers-"))
    write_corpus(folder)
    train(folder / "reference", 1, arguments.steps)
    expected = end_of(folder / "reference")
    blows, greatest = 0, 0.0
    with ExitStack() as stack:
        network = None
        if arguments.network:
            network = stack.enter_context(Network(max(arguments.workers)))
        for life in range(arguments.lives):
            random_numbers = random.Random(f"{arguments.seed} {life}")
            place = folder / f"life-{life}"
            blows += _lead(place, arguments, random_numbers, network)
            gap = difference(end_of(place), expected)
            print(f"life {life + 1}: {gap:.1e} from one process", flush=True)
            greatest = max(greatest, gap)
    is_good = greatest <= TOLERANCE
    print(f"{blows} blows in {arguments.lives} lives: at most {greatest:.1e} from one process")
    if is_good:
        shutil.rmtree(folder)
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
