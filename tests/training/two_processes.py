"""Workers as processes of this machine, forked from one that has imported TensorFlow, not used it.

Tests run this file by `tests.commands.said_by`, whose process is such a one.
"""

import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import runpy
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

GIN = Path(__file__).with_suffix(".gin").read_text(encoding="utf-8")


def write_experiment(folder: Path) -> None:
    """Writes a gin file and its corpus; every target is its source reversed."""
    generator = random.Random(0)
    words = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
    sources = [generator.choices(words, k=generator.randint(3, 6)) for _ in range(204)]
    for split, part in (("dev", sources[:4]), ("train", sources[4:])):
        (folder / f"{split}.source").write_text("".join(f"{' '.join(s)}\n" for s in part))
        (folder / f"{split}.target").write_text("".join(f"{' '.join(s[::-1])}\n" for s in part))
    (folder / "tiny.gin").write_text(GIN)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def run_workers(count: int, work: Callable[[int], None]) -> list[int]:
    """Runs `work(index)` in every worker; returns their exit statuses, -9 of a killed one."""
    # Below those that the system gives to connections, which could take one before its worker does.
    ports = filter(_is_free, random.SystemRandom().sample(range(20_000, 32_000), 100))
    addresses = [f"127.0.0.1:{port}" for port in itertools.islice(ports, count)]

    def begin(index: int) -> None:
        if count > 1:
            task = {"type": "worker", "index": index}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        work(index)

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=begin, args=(index,)) for index in range(count)]
    for process in processes:
        process.start()
    multiprocessing.connection.wait([process.sentinel for process in processes], 300)
    # A lost worker ends the others within a minute.
    end = time.monotonic() + 60
    for process in processes:
        process.join(max(end - time.monotonic(), 0))
    for process in processes:
        process.kill()
    return [-1 if process.exitcode is None else process.exitcode for process in processes]


def train(
    folder: Path,
    count: int,
    steps: int,
    signals: Sequence[tuple[int, int, int]] = (),
    last: Sequence[str] = (),
) -> list[int]:
    """Trains in a folder; every worker writes log.<index>.

    Args:
        folder: of the run, beside the experiment.
        count: of workers.
        steps: of the training.
        signals: (worker, signal, update): sends a signal to a worker before its nth update.
        last: more flags of the last worker.

    Returns:
        the exit statuses.
    """
    folder.mkdir(exist_ok=True)
    flags = {"--gin_file": "../tiny.gin", "--data_dir": "data", "--model_dir": "model"}
    own = flags | dict(flag.split("=", maxsplit=1) for flag in last)

    def work(index: int) -> None:
        from t2t_repro.training.train_step import TrainStep

        inner, calls = TrainStep.__call__, itertools.count(1)

        def call(*arguments: object) -> object:
            update = next(calls)
            for worker, number, at in signals:
                if (worker, at) == (index, update):
                    os.kill(os.getpid(), number)
            return inner(*arguments)  # type: ignore[arg-type]

        setattr(TrainStep, "__call__", call)  # noqa: B010 (mypy)
        os.chdir(folder)
        log = os.open(f"log.{index}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        given = own if index == count - 1 else flags
        sys.argv = ["trainer", f"--gin_param=TrainingSchedule.steps = {steps}"]
        sys.argv += [f"{name}={value}" for name, value in given.items()]
        runpy.run_module("t2t_repro.trainer", run_name="__main__", alter_sys=True)

    statuses = run_workers(count, work)
    # Shown where a test fails.
    for index, status in enumerate(statuses):
        print(f"worker {index} ended with {status}:", (folder / f"log.{index}").read_text()[-2000:])
    return statuses


def error_in(log: Path) -> str:
    """Returns the one error of a worker."""
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("error")]
    return line
