"""The short version of the report: some faults at random moments, all in one other process."""

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_what_was_killed_ends_in_the_bytes_of_what_was_not(tmp_path):
    command = [sys.executable, "-m", "tests.faults.report", "--kills=4", f"--folder={tmp_path}"]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"4 kills in \d lives: \d ended in .* uninterrupted run, 0 did not", last)
    # What is compared has everything in it that a run leaves.
    compared = re.search(r"(\d+) things to compare", done.stdout)
    assert compared
    assert int(compared[1]) > 300
