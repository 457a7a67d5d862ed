"""Fills the disk under a training: `python -m tests.faults.full_disk --fills 20`.

The disk is a tmpfs of its own, so that TensorFlow's own writes fail too. Between two checkpoints
something else takes all room but a few pages. The run has to end with a clear error;
with the disk free again, the same commands go on; the end is that of a run with room enough.

Needs Linux and the right to mount in a namespace (root has it).
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from tests.faults.pipeline import attempt, fingerprint, write_corpus
from tests.faults.system_calls import system_call
from tests.processes import in_child

_PAGE = 4096
_SIZE = 4 * 2**20  # Soon full.
_USER_ERROR = 2
# Of linux/sched.h and linux/mount.h.
_NEW_MOUNTS = 0x00020000
_PRIVATE, _RECURSIVE = 1 << 18, 1 << 14


def own_disk(folder: Path) -> None:
    """Mounts a small disk that this process and its children alone see.

    Raises:
        OSError: it is not permitted.
    """
    system_call("unshare", _NEW_MOUNTS)
    system_call("mount", b"none", b"/", None, _PRIVATE | _RECURSIVE, None)
    system_call("mount", b"none", bytes(folder), b"tmpfs", 0, f"size={_SIZE}".encode())


def can_be_made() -> bool:
    """Whether this process may mount; tried in a child, as it cannot be undone."""
    return not in_child(lambda: own_disk(Path(tempfile.gettempdir())))


def fill(disk: Path, steps: int, pages: int) -> int:
    """Starts a process that takes the room of a disk when its run has come far enough.

    Args:
        disk: the pipeline's folder.
        steps: it waits for a checkpoint of so many, or more.
        pages: that it leaves free.

    Returns:
        the process.
    """
    filler = os.fork()
    if filler:
        return filler
    run = CheckpointFolder(disk / "model" / "checkpoints", keep=1)
    while max(run.steps(), default=0) < steps:
        time.sleep(0.005)
    with open(disk / "filler", "wb") as file:
        while (room := shutil.disk_usage(disk).free - pages * _PAGE) > 0:
            try:
                os.posix_fallocate(file.fileno(), 0, room)
            except OSError:
                # The run has written meanwhile: there is less room.
                continue
            break
    os._exit(0)


def lead(folder: Path, fills: int, seed: int) -> None:
    """Fills the disk under a run so many times; ends this process, whose disk it is.

    Raises:
        SystemExit: with 0 where everything was as it should be.
    """
    whole = attempt(folder / "whole")
    disk = folder / "disk"
    disk.mkdir()
    own_disk(disk)
    # The log is not on the disk that is full.
    (disk / "log").symlink_to(folder / "log")
    random_numbers, wrong, filled = random.Random(seed), [], 0
    for number in range(fills):
        filler = fill(disk, 52 * (number + 1) // (fills + 1), random_numbers.randrange(12))
        outcome = attempt(disk)
        os.kill(filler, signal.SIGKILL)
        os.waitpid(filler, 0)
        (disk / "filler").unlink(missing_ok=True)
        if outcome.status == 0:
            # It was over before the disk was full.
            break
        filled += 1
        last = (folder / "log").read_text().splitlines()[-1]
        print(f"{outcome}: status {outcome.status}, {last}", flush=True)
        if outcome.status != _USER_ERROR or not last.startswith("error: "):
            wrong.append(f"{outcome}: status {outcome.status}, {last}")
    if whole.status or attempt(disk).status:
        wrong.append("with room enough it does not end well")
    expected, found = fingerprint(folder / "whole"), fingerprint(disk)
    wrong += [key for key in expected | found if expected.get(key) != found.get(key)]
    verdict = f"wrong: {', '.join(wrong[:5])}" if wrong else "ended in the bytes of a run with room"
    print(f"{filled} full disks: {verdict}", flush=True)
    raise SystemExit(bool(wrong))


def main() -> int:
    """Leads a run; status 0 where it ended as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from t2t_repro import experiment  # noqa: F401 (imported once, for all children)

    with tempfile.TemporaryDirectory(prefix="full-disk-") as folder:
        write_corpus(Path(folder))
        return in_child(lambda: lead(Path(folder), arguments.fills, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
