"""Processes of their own, for what cannot be done in the one that runs the tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


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
