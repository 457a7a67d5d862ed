"""The short version of the report: some faults at random moments, all in one other process."""

import re

import pytest

from tests.commands import said_by

pytestmark = pytest.mark.long


def test_what_was_killed_ends_in_the_bytes_of_what_was_not(tmp_path):
    report = said_by("tests.faults.report", "--kills=4", f"--folder={tmp_path}")
    last = report.splitlines()[-1]
    assert re.fullmatch(r"4 kills in \d lives: \d ended in .* uninterrupted run, 0 did not", last)
    # What is compared has everything in it that a run leaves.
    compared = re.search(r"(\d+) things to compare", report)
    assert compared
    assert int(compared[1]) > 300
