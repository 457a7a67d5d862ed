"""Command lines, run as `python -m` runs them, in children of one process that has TensorFlow."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.processes import CHECKOUT

# It lives as long as the tests: importing TensorFlow takes longer than most commands.
_DRIVER = """
import json, os, runpy, sys, tempfile, traceback
{imports}

requests = os.fdopen(os.dup(0))
for line in requests:
    folder, environment, commands = json.loads(line)
    outcomes = []
    for module, arguments, given in commands:
        files = [tempfile.TemporaryFile() for _ in range(3)]
        files[0].write(given.encode())
        files[0].seek(0)
        child = os.fork()
        if not child:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            for number, file in enumerate(files):
                os.dup2(file.fileno(), number)
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
        for file in files:
            file.seek(0)
        _, out, err = (file.read().decode() for file in files)
        outcomes.append((os.waitstatus_to_exitcode(status), out, err))
    print(json.dumps(outcomes), flush=True)
"""
WITH_TENSORFLOW = (
    "import tensorflow_text, t2t_repro.decoding.loading, t2t_repro.training.training_run"
)
WITHOUT_TENSORFLOW = "sys.modules['tensorflow'] = None; import aiohttp, t2t_repro.experiment"
# Output must not depend on the locale.
_ENVIRONMENT = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(CHECKOUT)}


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


def outcomes_of(
    commands: Sequence[tuple[str, Sequence[str], str]], folder: Path, imports: str = WITH_TENSORFLOW
) -> list[Outcome]:
    """Runs commands one after the other.

    Args:
        commands: verb, arguments and standard input of each.
        folder: the working directory; nothing of the commands' own input and output stays there.
        imports: what all of them find imported.
    """
    named = [(f"t2t_repro.{verb}", arguments, stdin) for verb, arguments, stdin in commands]
    return _run(named, folder, imports)


def said_by(module: str, *arguments: str) -> str:
    """Returns what a module of the tests, run likewise, prints; it has to end well."""
    with tempfile.TemporaryDirectory() as folder:
        (outcome,) = _run([(module, arguments, "")], Path(folder), WITH_TENSORFLOW)
    assert outcome.status == 0, outcome.out + outcome.err
    return outcome.out


def _run(
    commands: list[tuple[str, Sequence[str], str]], folder: Path, imports: str
) -> list[Outcome]:
    driver = _driver(imports)
    assert driver.stdin
    assert driver.stdout
    request = json.dumps([str(folder), os.environ | _ENVIRONMENT, commands])
    print(request, file=driver.stdin, flush=True)
    return [Outcome(*outcome) for outcome in json.loads(driver.stdout.readline())]


@functools.cache
def _driver(imports: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _DRIVER.replace("{imports}", imports)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | _ENVIRONMENT,
    )
