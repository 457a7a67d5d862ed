"""The steps of a training: each is done once, whatever stopped the one before it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.whole_files import write_whole

Facts = dict[str, Any]


def end_with_its_children() -> None:
    """Has SIGTERM end this process and the toolkit that it waits for."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def once(stamp: Path, work: Callable[[], Facts | None]) -> Facts:
    """Does a step, unless its stamp says that it was done.

    Args:
        stamp: a JSON file, written when the step is done.
        work: the step; returns what is to be known of it later.

    Returns:
        what `work` returned, and the `seconds` that it took.
    """
    if not stamp.is_file():
        began = time.monotonic()
        facts = work() or {}
        facts["seconds"] = round(time.monotonic() - began, 1)
        write_whole(stamp, json.dumps(facts, indent=2).encode())
    found: Facts = json.loads(stamp.read_text(encoding="utf-8"))
    return found


def call(python: Path, arguments: Sequence[str | Path], log: Path) -> None:
    """Runs a toolkit's Python on as many threads as there are cores for this process.

    Args:
        python: of the toolkit's environment.
        arguments: of it.
        log: what the toolkit says is appended to this file.

    Raises:
        UserError: it failed.
    """
    cores = str(len(os.sched_getaffinity(0)))
    settings = {
        **os.environ,
        "OMP_NUM_THREADS": cores,
        "MKL_NUM_THREADS": cores,
        # fairseq's checkpoints hold its settings beside the weights.
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
        # PyTorch gives the memory of every large tensor back to the system, and has it cleared
        # anew for the next; kept, training takes a quarter less time.
        "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        done = subprocess.run([python, *arguments], stdout=file, stderr=file, env=settings)
    if done.returncode:
        called = " ".join(map(str, arguments[:2]))
        raise UserError(f"{called} failed with exit status {done.returncode}; see {log}")
