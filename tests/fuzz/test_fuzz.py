"""A little of the fuzzing, and what much of it has found."""

import pytest

from tests.fuzz.run import _outcome
from tests.processes import output_of

pytestmark = pytest.mark.long

INPUTS = """
import os
import sys
from t2t_repro import experiment
from tests.fuzz import run, targets
from tests.fuzz.mutations import spoil_bytes


def abort(folder):
    if b"Translator.search" not in (folder / "a.gin").read_bytes():
        os.abort()

SLOW = {"model_directory": 5, "t2t_checkpoint": 8, "gin": 20, "prepared": 25, "manifest": 25}
SLOW["config.gin expansion"] = 20
found = refused = 0
for name in targets.TARGETS:
    count = SLOW.get(name, 50)
    result = run.fuzz(name, 1_000_000, count, float("inf"))
    print(name, result.inputs, dict(result.findings))
    found += len(result.findings) + (result.inputs != count)
    refused += result.refused
found += not refused
targets.TARGETS["aborts"] = targets.Target(targets._write_gin, {"*.gin": spoil_bytes}, abort)
result = run.fuzz("aborts", 0, 40, float("inf"))
print("aborts", result.inputs, dict(result.findings))
found += result.inputs != 40 or "the process ended: -6" not in result.findings
sys.exit(found)
"""


def test_spoilt_files_are_read_or_refused():
    """In another process: this one has computed, and so cannot fork."""
    output_of("-c", INPUTS)


def test_what_is_no_clear_error_is_a_finding(tmp_path):
    def read(folder):
        raise KeyError("x")

    assert _outcome(read, tmp_path).startswith("KeyError at test_fuzz.py")
    assert _outcome(lambda folder: None, tmp_path) == "read"
