"""Processes of their own, for what cannot be done in the one that runs the tests."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from t2t_repro.files import lock

CHECKOUT = Path(__file__).parents[1]


@contextmanager
def held_folder(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Yields a folder that all processes of a test run share; one at a time works in it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with lock(folder.with_name(f"{name}.lock")):
        folder.mkdir(exist_ok=True)
        yield folder


def output_of(*arguments: str, folder: Path = CHECKOUT) -> str:
    """Returns what `python <arguments>` prints in a folder; it has to end well.

    It starts without TensorFlow: a process that has computed with it cannot fork.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_only_our_lines(err: str) -> None:
    """Checks that standard error has lines of our own log alone; TensorFlow's C++ may write too."""
    log = re.compile(r"[IWE]\d{4} [\d:.]+ +\d+ (\w+\.(?:py|cc)):\d+\] .+")
    ours = {path.name for path in (CHECKOUT / "t2t_repro").rglob("*.py")}
    for line in err.splitlines():
        if line.startswith("WARNING: All log messages before absl"):
            continue
        found = log.fullmatch(line)
        assert found, line
        assert found[1] in ours or found[1].endswith(".cc"), line
