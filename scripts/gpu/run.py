"""Measures on a GPU machine, part after part, and appends every result at once: docs/gpu_day.md.

    bash scripts/gpu_day.sh run --kit=gpu_day/kit/1 --results=results.jsonl
    bash scripts/gpu_day.sh run --tensorflow=gpu_day/tensorflow/1 --results=results.jsonl
    bash scripts/gpu_day.sh run --results=results.jsonl --list

Pieces are kept in --root. Parts that lack pieces are left for a later call. A part that has ended
well, by --results or --earlier, is not done again; others are tried after those that never were.
A call in which a part failed ends with status 1, after all the others.
Every part ends at its own limit or the call's, whichever comes first; "--parts" chooses some.
Needs nothing but Python; JAX and PyTorch are those of --jax and --pytorch.
"""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import parts
import pieces
import put_together
from parts import TENSORFLOW, Part

CHECKOUT = Path(__file__).resolve().parents[2]
DAY = "gpu day"
"""The benchmark of the rows that say how a part ended."""

DONE, FAILED, OUT_OF_TIME = "done", "failed", "out of time"
GRACE = 10
"""Seconds between asking a part to stop, and killing it."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""By which a call is ended from outside."""

LEAST = 20
"""Seconds with which a part is begun."""


class Setting(NamedTuple):
    """Where and with what commands run.

    Attributes:
        python: that runs them.
        environment: their variables.
        results: file of JSON lines.
        log: what they say is appended to it.
    """

    python: str
    environment: Mapping[str, str]
    results: Path
    log: Path


def main() -> None:
    """Keeps the pieces, then does the parts that there is time for."""
    options = arguments()
    deadline = time.monotonic() + 60 * options.minutes
    root, results = options.root.resolve(), options.results.resolve()
    kit, tensorflow, runs = root / "kit", root / "tensorflow", root / "runs"
    waits_for = arrive(options.kit, kit)
    if waits_for:
        print(f"pieces of the kit that have not arrived: {', '.join(waits_for)}", flush=True)
        return
    python = options.use_tensorflow
    if not python and not put_together.arrive(options.tensorflow, tensorflow):
        python = str(tensorflow / "venv" / "bin" / "python")
    (runs / "logs").mkdir(parents=True, exist_ok=True)
    sizes = parts.SIZES[json.loads((kit / "sizes.json").read_text(encoding="utf-8"))]
    of_day = [
        part._replace(limit=round(part.limit * options.slower))
        for part in parts.all_parts(sizes, kit, runs, options.pytorch)
    ]
    known = [row for path in (*options.earlier, results) for row in rows(path)]
    waiting: list[str] = []
    failed: list[str] = []
    for part in to_do(of_day, known, options.parts):
        if options.list:
            print(f"{part.name}: {part.limit} s at most")
            continue
        if part.python == TENSORFLOW and not python:
            waiting.append(part.name)
            continue
        if deadline - time.monotonic() < LEAST + GRACE:
            print(f"== {part.name}: no time left in this call", flush=True)
            continue
        log = results.parent / "logs" / f"{re.sub(r'[^A-Za-z0-9]+', '_', part.name)}.log"
        setting = Setting(options.jax, variables(), results, log)
        if part.python == TENSORFLOW:
            own = {} if options.use_tensorflow else put_together.environment(tensorflow)
            setting = setting._replace(python=python, environment={**variables(), **own})
        if do(part, setting, deadline) == FAILED:
            failed.append(part.name)
    if waiting:
        print(f"{len(waiting)} parts wait for pieces of TensorFlow: {'; '.join(waiting)}")
    if failed:
        raise SystemExit(f"error: failed: {'; '.join(failed)} ({results.parent / 'logs'} says why)")


def arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--kit", type=Path, nargs="*", default=[], help="pieces of what was prepared")
    add("--tensorflow", type=Path, nargs="*", default=[], help="pieces of TensorFlow")
    add("--results", type=Path, required=True, help="JSON lines are appended; logs are beside it")
    add("--earlier", type=Path, nargs="*", default=[], help="results of other calls")
    add("--minutes", type=float, default=9.0, help="that this call may take")
    add("--slower", type=float, default=1.0, help="limits are as many times as long: to rehearse")
    add("--parts", nargs="*", help="names, or how they begin; all by default")
    add("--list", action="store_true", help="say what is to be done, and end")
    add("--root", type=Path, default=Path("/tmp/t2t_gpu_day"))
    add("--jax", default=sys.executable, help="the Python that has JAX")
    add("--pytorch", default=sys.executable, help="the Python that has PyTorch")
    add("--use_tensorflow", help="a Python that has TensorFlow, in place of the pieces")
    options = parser.parse_args()
    for path in options.earlier:
        if not path.is_file():
            parser.error(f"--earlier: there is no file {path}")
    for name in ("jax", "pytorch", "use_tensorflow"):
        given = getattr(options, name)
        found = given and shutil.which(given)
        if given and not found:
            parser.error(f"--{name}: {given} is no program")
        # Commands run in the checkout, wherever this was called.
        setattr(options, name, found and os.path.abspath(found))
    return options


def variables() -> dict[str, str]:
    """Of this process, and so that several of ours share the memory of a GPU."""
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return {**os.environ, **shared, "PYTHONPATH": str(CHECKOUT), "TF_CPP_MIN_LOG_LEVEL": "2"}


def arrive(folders: Iterable[Path], kit: Path) -> list[str]:
    """Keeps pieces of the kit, and unpacks it once all are there.

    Returns:
        the names of those that are missing still.

    Raises:
        SystemExit: a piece is of another kit than the one that is there.
    """
    kept = kit.with_name("kit_pieces")
    is_there = (kit / "sizes.json").is_file()
    for folder in folders:
        if is_there and not pieces.is_of(folder, kept):
            raise SystemExit(
                f"error: {folder} is of another kit than {kit}: delete that and {kept}, or give "
                "another --root"
            )
        pieces.keep(folder, kept)
    if is_there:
        return []
    waits_for = pieces.missing(kept)
    if not waits_for:
        aside = kit.with_name("kit.partial")
        pieces.unpack(kept, aside)
        aside.rename(kit)
    return waits_for


def rows(path: Path) -> list[dict[str, Any]]:
    """Reads JSON lines; the last of a machine that was taken away may be half a line."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        row = as_row(line)
        if row:
            found.append(row)
    return found


def as_row(line: str) -> dict[str, Any] | None:
    """Reads a line as a row of results; None if it is none."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "benchmark" in row else None


def to_do(
    of_day: Sequence[Part], known: Iterable[dict[str, Any]], chosen: Sequence[str] | None
) -> list[Part]:
    """Orders what is left: first what was never tried.

    Raises:
        SystemExit: a name is that of no part.
    """
    for name in chosen or ():
        if not any(part.name.startswith(name) for part in of_day):
            names = "; ".join(part.name for part in of_day)
            raise SystemExit(f"error: there is no part {name!r}; there are: {names}")
    ends = [row for row in known if row["benchmark"] == DAY]
    done = {row["case"] for row in ends if row["ended"] == DONE}
    tries = collections.Counter(row["case"] for row in ends)
    left = [
        part
        for part in of_day
        if part.name not in done and (not chosen or part.name.startswith(tuple(chosen)))
    ]
    return sorted(left, key=lambda part: tries[part.name])


def do(part: Part, setting: Setting, deadline: float) -> str:
    """Does a part within its time; appends how it ended, and returns it."""
    print(f"== {part.name}", flush=True)
    setting.log.parent.mkdir(parents=True, exist_ok=True)
    end_last_line(setting.results)
    began = time.monotonic()
    end = min(began + part.limit, deadline - GRACE)
    ended = DONE
    for command in part.commands:
        ended = call(command, setting, end - time.monotonic())
        if ended != DONE:
            break
    row = {"benchmark": DAY, "case": part.name, "value": round(time.monotonic() - began, 1)}
    row |= {"unit": "s", "ended": ended, "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    if ended == FAILED:
        row["said"] = "\n".join(setting.log.read_text(errors="replace").splitlines()[-5:])[-800:]
    append(setting.results, json.dumps(row))
    return ended


def call(command: Sequence[str], setting: Setting, seconds: float) -> str:
    """Runs a command, and appends its rows as they come; says how it ended."""
    words = [word.replace("{results}", str(setting.results)) for word in command]
    appends_by_itself = words != list(command)
    is_late = threading.Event()
    # A signal between the start of the command and the `try` would leave it running.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    with (
        setting.log.open("ab") as log,
        subprocess.Popen(
            [setting.python, *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            errors="replace",  # Killed, a command may leave half a letter.
            cwd=CHECKOUT,
            env=setting.environment,
            start_new_session=True,
            # Otherwise the command would have them blocked, too.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        ) as process,
    ):
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            status = follow(process, setting, log, seconds, is_late, appends_by_itself)
        except BaseException:
            # A signal ends this call: nothing may go on, on the GPU, beside the next one.
            stop(process, is_late)
            raise
    if is_late.is_set():
        return OUT_OF_TIME
    return FAILED if status else DONE


def follow(
    process: "subprocess.Popen[str]",
    setting: Setting,
    log: BinaryIO,
    seconds: float,
    is_late: threading.Event,
    appends_by_itself: bool,
) -> int:
    """Appends a command's rows as they come, and returns its status; stops it when it is late."""
    watch = threading.Timer(max(seconds, 0.0), stop, (process, is_late))
    # Python's end would wait for it.
    watch.daemon = True
    try:
        watch.start()
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line.encode())
            log.flush()
            if as_row(line) and not appends_by_itself:
                append(setting.results, line.rstrip("\n"))
        return process.wait()
    finally:
        watch.cancel()


def stop(process: "subprocess.Popen[str]", is_late: threading.Event) -> None:
    """Ends a command and all that it started: asked first, then killed."""
    is_late.set()
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        end = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)


def append(results: Path, line: str) -> None:
    """Appends a line, and sees that it is on the disk."""
    print(line, flush=True)
    end_last_line(results)
    with results.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def end_last_line(results: Path) -> None:
    """Ends half a line, which whoever was killed left: the next one would be lost with it."""
    written = results.read_bytes() if results.is_file() else b""
    if written and not written.endswith(b"\n"):
        with results.open("a", encoding="utf-8") as file:
            file.write("\n")


def end(number: int, _: object) -> None:
    """Ends this process, and what it has started, when a signal comes; a second one is ignored."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for of_end in SIGNALS:
        signal.signal(of_end, end)
    main()
