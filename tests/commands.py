"""Command lines, run as `python -m` runs them, in children of one process that has TensorFlow."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import NamedTuple

from tests.processes import CHECKOUT

# It lives as long as the tests: importing TensorFlow takes longer than most commands.
_DRIVER = """
import json, os, runpy, sys, traceback
from t2t_repro import experiment

requests = os.fdopen(os.dup(0))
for line in requests:
    folder, environment, commands = json.loads(line)
    for number, (module, arguments, given) in enumerate(commands):
        child = os.fork()
        if not child:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            with open("in", "wb") as file:
                file.write(given.encode("latin-1"))
            os.dup2(os.open("in", os.O_RDONLY), 0)
            for descriptor, name in ((1, "out"), (2, "err")):
                path = f"{number}.{name}"
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
            sys.argv = [module, *arguments]
            status = 0
            try:
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            except SystemExit as end:
                status = end.code or 0
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        with open(os.path.join(folder, f"{number}.status"), "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))
    print("done", flush=True)
"""
_KINDS = ("status", "out", "err")
_SECONDS = 900
_ENVIRONMENT = {
    # What is written must not depend on the locale.
    "PYTHONIOENCODING": "ascii",
    "PYTHONPATH": str(CHECKOUT),
}


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
    given = [
        (f"t2t_repro.{verb}", arguments, stdin.encode().decode("latin-1"))
        for verb, arguments, stdin in commands
    ]
    _run(given, folder)
    found = []
    for number in range(len(commands)):
        status, out, err = (folder / f"{number}.{kind}" for kind in _KINDS)
        found.append(
            Outcome(int(status.read_text()), out.read_bytes().decode(), err.read_bytes().decode())
        )
        for path in (status, out, err):
            path.unlink()
    (folder / "in").unlink()
    return found


def said_by(module: str, *arguments: str) -> str:
    """What a module of the tests, run so, writes to standard output; it has to end well."""
    with tempfile.TemporaryDirectory() as folder:
        _run([(module, arguments, "")], Path(folder))
        status, out, err = ((Path(folder) / f"0.{kind}").read_text() for kind in _KINDS)
    assert status == "0", out + err
    return out


def _run(commands: list[tuple[str, Sequence[str], str]], folder: Path) -> None:
    """Has the driver run modules; what they say and how they end is in the folder then."""
    driver = _driver()
    limit = Timer(_SECONDS, driver.kill)
    limit.start()
    assert driver.stdin
    assert driver.stdout
    try:
        print(json.dumps([str(folder), os.environ | _ENVIRONMENT, commands]), file=driver.stdin)
        driver.stdin.flush()
        answer = driver.stdout.readline()
    finally:
        limit.cancel()
    if answer != "done\n":
        _driver.cache_clear()
        raise AssertionError(f"the commands' driver ended, or they took {_SECONDS} s")


@functools.cache
def _driver() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | _ENVIRONMENT,
    )
