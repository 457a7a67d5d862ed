"""Command lines, run as `python -m` runs them, in children of one process that has TensorFlow."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.processes import CHECKOUT

_DRIVER = """
import json, os, runpy, sys, traceback
from t2t_repro import experiment

for number, (module, arguments, given) in enumerate(json.load(sys.stdin)):
    child = os.fork()
    if not child:
        with open("in", "wb") as file:
            file.write(given.encode("latin-1"))
        os.dup2(os.open("in", os.O_RDONLY), 0)
        for descriptor, name in ((1, "out"), (2, "err")):
            path = f"{number}.{name}"
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        sys.argv = [module, *arguments]
        status = 0
        try:
            runpy.run_module(f"t2t_repro.{module}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    with open(f"{number}.status", "w") as file:
        file.write(str(os.waitstatus_to_exitcode(status)))
"""


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


def outcomes_of(commands: Sequence[tuple[str, Sequence[str], str]], folder: Path) -> list[Outcome]:
    """What becomes of commands, one after the other.

    Args:
        commands: verb, arguments and standard input of each.
        folder: the working directory; nothing of this is left in it.
    """
    given = [(*command, stdin.encode().decode("latin-1")) for *command, stdin in commands]
    subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps(given),
        text=True,
        cwd=folder,
        # What is written must not depend on the locale.
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(CHECKOUT)},
        check=True,
        timeout=500,
    )
    found = []
    for number in range(len(commands)):
        status, out, err = (folder / f"{number}.{kind}" for kind in ("status", "out", "err"))
        found.append(
            Outcome(int(status.read_text()), out.read_bytes().decode(), err.read_bytes().decode())
        )
        for path in (status, out, err):
            path.unlink()
    (folder / "in").unlink()
    return found
