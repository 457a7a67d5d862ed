"""The steps of a training: each is done once, whatever stopped the one before it."""

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import lock, write_whole

Facts = dict[str, Any]


def end_with_its_children() -> None:
    """Has SIGTERM end this process and the toolkit that it waits for."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def once(stamp: Path, work: Callable[..., Facts | None], *arguments: Any) -> Facts:
    """Does a step, unless its stamp says that it was done; while another process does it, waits.

    Args:
        stamp: a JSON file, written when the step is done.
        work: the step; returns what is to be known of it later.
        arguments: of it.

    Returns:
        what `work` returned.
    """
    if not stamp.is_file():
        with lock(stamp.with_name(f".{stamp.name}.lock")):
            # Done by the one that was waited for.
            if not stamp.is_file():
                write_whole(stamp, json.dumps(work(*arguments) or {}, indent=2).encode())
    found: Facts = json.loads(stamp.read_text(encoding="utf-8"))
    return found


def write_text(path: Path, text: str) -> None:
    """Writes a file, whole or not at all; another process may write the same at the same time."""
    with lock(path.with_name(f".{path.name}.lock")):
        write_whole(path, text.encode())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes a file of lines, as `write_text` does."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def call(python: Path, arguments: Sequence[str | Path], log: Path) -> None:
    """Runs a toolkit's Python on as many threads as there are cores for this process.

    Args:
        python: of the toolkit's environment.
        arguments: of it.
        log: what the toolkit says is appended to this file; how long it took, to another beside it.

    Raises:
        UserError: it failed.
    """
    cores = str(len(os.sched_getaffinity(0)))
    settings = {
        **os.environ,
        "OMP_NUM_THREADS": cores,
        "MKL_NUM_THREADS": cores,
        "TF_NUM_INTRAOP_THREADS": cores,
        "TF_NUM_INTEROP_THREADS": cores,
        # fairseq's checkpoints hold its settings beside the weights.
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
        # PyTorch gives the memory of every large tensor back to the system, and has it cleared
        # anew for the next; kept, training takes a quarter less time.
        "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        with log.open("ab") as file:
            done = subprocess.run([python, *arguments], stdout=file, stderr=file, env=settings)
    finally:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row = {"wall": round(time.monotonic() - began, 1), "cpu": round(cpu, 1)}
        with _times(log).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    if done.returncode:
        called = " ".join(map(str, arguments[:2]))
        raise UserError(f"{called} failed with exit status {done.returncode}; see {log}")


def hours(log: Path) -> Facts:
    """Returns the hours that all calls with a log took, by the clock and of processors.

    Calls that were ended count, but not those that were killed together with this process.
    """
    rows = _times(log).read_text(encoding="utf-8").splitlines()
    calls = [json.loads(row) for row in rows]
    return {
        f"{name}_hours": round(sum(found[name] for found in calls) / 3600, 3)
        for name in ("wall", "cpu")
    }


def _times(log: Path) -> Path:
    return log.with_suffix(".seconds.jsonl")
