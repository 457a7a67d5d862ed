"""Gives readers spoilt files: `python -m tests.fuzz.run --target=token_store --inputs=100000`.

Inputs are a function of the target and a number: `--first=N --inputs=1` makes one again. They are
read in a child process, so that one that ends the process is noticed too. A finding is whatever is
neither success nor a UserError of one line: another error, a process that ended, more than
`--seconds` of processor time, or more memory than `_MEMORY` beyond what the process began with.
"""

import argparse
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from tests.processes import in_child

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("ABSL_MIN_LOG_LEVEL", "3")

_MEMORY = 2**30
# Keras keeps something of every model: after a thousand of them, memory is at its limit.
_INPUTS_OF_CHILD = 500
_BLOCKED_SECONDS = 300


class Result(NamedTuple):
    """How often inputs ended in what way; for findings, which one was the first."""

    inputs: int
    refused: int
    findings: Counter
    examples: dict[str, int]


def fuzz(name: str, first: int, inputs: int, until: float, seconds: float = 5.0) -> Result:
    """Fuzzes one target.

    Args:
        name: of the target.
        first: number of the first input.
        inputs: how many at most.
        until: on the monotonic clock, when to end.
        seconds: of processor time that an input may take.
    """
    counts: Counter = Counter()
    examples: dict[str, int] = {}
    number, end = first, first + inputs
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        write_valid(name, Path(folder) / "valid")
        while number < end and time.monotonic() < until:
            upto = min(number + _INPUTS_OF_CHILD, end)
            for at, outcome in _outcomes(name, Path(folder), number, upto, until, seconds):
                counts[outcome] += 1
                examples.setdefault(outcome, at)
                number = at + 1
    refused = counts.pop("refused", 0)
    total = counts.pop("read", 0) + refused + counts.total()
    return Result(total, refused, counts, {k: examples[k] for k in counts})


def _outcomes(
    name: str, folder: Path, first: int, end: int, until: float, seconds: float
) -> Iterator[tuple[int, str]]:
    """What became of inputs that one child read."""
    current = mmap.mmap(-1, 16)  # Number of the input, and processor time when it began.
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            _read_all(name, folder, range(first, end), until, seconds, current, send)
        except BaseException:
            os.write(send, f"{_number(current)} harness {traceback.format_exc()!r}\n".encode())
        finally:
            os._exit(0)
    os.close(send)
    done = first - 1
    with open(receive, "rb") as lines:
        watcher = os.fork()
        if not watcher:
            _watch(child, current, seconds)
        for line in lines:
            done, outcome = int(line.split(b" ", 1)[0]), line.split(b" ", 1)[1]
            yield done, outcome.decode().strip()
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        yield max(done + 1, _number(current)), f"the process ended: {status}"


def _watch(child: int, current: mmap.mmap, seconds: float) -> None:
    """Kills a child that an input keeps busy, or that waits for something."""
    seen, since = -1, time.monotonic()
    while True:
        time.sleep(1)
        number, began = struct.unpack("qd", current[:16])
        if number != seen:
            seen, since = number, time.monotonic()
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            os._exit(0)
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") - began
        blocked = time.monotonic() - since > _BLOCKED_SECONDS
        if used > 4 * seconds or (blocked and fields[0] == "S"):
            os.kill(child, signal.SIGKILL)
            os._exit(0)


def _read_all(
    name: str,
    folder: Path,
    numbers: range,
    until: float,
    seconds: float,
    current: mmap.mmap,
    send: int,
) -> None:
    from tests.fuzz.targets import TARGETS

    target, valid, spoilt = TARGETS[name], folder / "valid", folder / "spoilt"
    shutil.rmtree(spoilt, ignore_errors=True)
    shutil.copytree(valid, spoilt)
    names = sorted(str(p.relative_to(valid)) for p in valid.rglob("*") if p.is_file())
    names = [n for n in names if any(fnmatch(n, pattern) for pattern in target.spoil)]
    _limit_memory()
    for number in numbers:
        if time.monotonic() > until:
            return
        began = time.process_time()
        current[:16] = struct.pack("qd", number, began)
        rng = random.Random(f"{name} {number}")
        for chosen in rng.sample(names, 1 if rng.random() < 0.9 else min(2, len(names))):
            spoil = next(f for pattern, f in target.spoil.items() if fnmatch(chosen, pattern))
            (spoilt / chosen).write_bytes(spoil(rng, (valid / chosen).read_bytes()))
        began = time.process_time()
        outcome = _outcome(target.read, spoilt)
        if (used := time.process_time() - began) > seconds:
            outcome = f"took long, more than {seconds} s" if used else outcome
        os.write(send, f"{number} {outcome}\n".encode())
        _restore(valid, spoilt)


def _outcome(read: Callable[[Path], object], folder: Path) -> str:
    from t2t_repro.errors import UserError

    try:
        read(folder)
    except UserError as error:
        text = str(error)
        # gin appends lines of its own; the command line prints the first.
        is_clear = 10 < len(text.split("\n")[0]) < 3000
        return "refused" if is_clear else f"an unclear message: {text[:200]!r}"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "t2t_repro/" in f.filename] or frames
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        return f"{type(error).__name__} at {where}: {str(error)[:150]!r}"
    return "read"


def _restore(valid: Path, spoilt: Path) -> None:
    """Puts valid files back; what reading made is deleted."""
    for path in spoilt.rglob("*"):
        if path.is_file() and not (valid / path.relative_to(spoilt)).exists():
            path.unlink()
    for path in valid.rglob("*"):
        if path.is_file():
            shutil.copyfile(path, spoilt / path.relative_to(valid))


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _number(current: mmap.mmap) -> int:
    return int(struct.unpack("q", current[:8])[0])


def write_valid(name: str, folder: Path) -> None:
    """Writes a target's valid files, in a child: this process has to fork, without TensorFlow.

    Raises:
        RuntimeError: they could not be written.
    """
    if status := in_child(lambda: _write(name, folder)):
        raise RuntimeError(f"the valid files could not be written: {status}")


def _write(name: str, folder: Path) -> None:
    from tests.fuzz.targets import TARGETS

    folder.mkdir()
    TARGETS[name].write(folder)


def main() -> int:
    """Fuzzes one target or all; status 0 where nothing was found."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=[*TARGETS, "all"], default="all")
    parser.add_argument("--inputs", type=int, default=100_000, help="at most, for each")
    parser.add_argument("--minutes", type=float, default=10, help="at most, for each")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seconds", type=float, default=5, help="of processor time, for an input")
    arguments = parser.parse_args()
    found = 0
    for name in TARGETS if arguments.target == "all" else [arguments.target]:
        began = time.monotonic()
        until = began + 60 * arguments.minutes
        result = fuzz(name, arguments.first, arguments.inputs, until, arguments.seconds)
        print(
            f"{name}: {result.inputs:,} inputs in {time.monotonic() - began:.0f} s, "
            f"{result.refused:,} refused, {len(result.findings)} findings",
            flush=True,
        )
        for outcome, count in result.findings.most_common():
            print(f"  {count:6d}  first {result.examples[outcome]}: {outcome}", flush=True)
        found += len(result.findings)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
