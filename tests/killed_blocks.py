"""Commands that work block by block, each in a child that a signal may end between its blocks."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.processes import CHECKOUT

# Of many blocks, so that no machine is done with them before a signal comes.
BLOCK = 24

CONFIG = """BeamSearch.beam_size = 2
Translator.max_extra_length = 8
Translator.max_source_length = 24
"""
"""Of a model that translates in no time."""

# Runs commands as `python -m` runs them, in children of a process that has TensorFlow, in blocks of
# few lines. Each is given a signal, or none, some seconds after so many blocks are whole.
_DRIVER = """
import json, os, runpy, signal, sys, time
from t2t_repro import experiment
from t2t_repro.lines import line_blocks

verb, line_blocks._LINES, commands = json.load(sys.stdin)

def run(arguments, log):
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.argv = [verb, *arguments]
    runpy.run_module(f"t2t_repro.{verb}", run_name="__main__", alter_sys=True)

def blocks():
    try:
        return open("out.partial/journal").read().count("\\n")
    except OSError:
        return 0

for number, (arguments, sent, after_blocks, seconds) in enumerate(commands):
    before = blocks()
    child = os.fork()
    if not child:
        status = 1
        try:
            run(arguments, f"log{number}")
            status = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    pid = 0
    if sent:
        while not pid and blocks() < before + after_blocks:
            time.sleep(0.01)
            pid, status = os.waitpid(child, os.WNOHANG)
        if not pid:
            time.sleep(seconds)
            os.kill(child, sent)
    if not pid:
        _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Command(NamedTuple):
    """What is run, and what ends it.

    Attributes:
        arguments: besides those of all.
        signal: that is sent, or 0.
        blocks: of `out.partial`, after which it is.
        seconds: and how long after these.
    """

    arguments: Sequence[str]
    signal: int = 0
    blocks: int = 0
    seconds: float = 0.0


class Ended(NamedTuple):
    """How a command ended: its exit status, or minus a signal, and its standard error."""

    status: int
    log: str


def run(
    verb: str, standard: Sequence[str], commands: Sequence[Command], folder: Path
) -> list[Ended]:
    """Runs commands of a verb one after the other.

    Args:
        verb: "translate" or "score".
        standard: arguments of all.
        commands: what differs.
        folder: where; their `--output` is "out" where a signal is sent.
    """
    given = [one._replace(arguments=[*standard, *one.arguments]) for one in commands]
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER],
        input=json.dumps((verb, BLOCK, given)),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=500,
    )
    logs = [(folder / f"log{number}").read_text() for number in range(len(given))]
    return [Ended(int(status), log) for status, log in zip(done.stdout.split(), logs, strict=True)]
