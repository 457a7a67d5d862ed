"""XLA on and off: every measurement has a name of its own; one that fails says why."""

import argparse
import subprocess

import pytest

import xla
from report import tables

OPTIONS = argparse.Namespace(tokens=64, precision="float32", steps=1)


def test_a_measurement_that_fails_says_why(capfd, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        xla.run("quickstart", "nope", str(tmp_path), OPTIONS)
    assert "argument --worker: invalid choice: 'nope'" in capfd.readouterr().err


def test_no_measurement_stands_for_another_in_the_report():
    whats = ("compile 3 shapes", "256 × 16", "128 × 32")
    results = [{"benchmark": "xla", "model": "base, float32", "mode": m} for m in xla.MODES]
    common = {"value": 1.0, "unit": "steps/s"}
    report = tables({**one, **xla.named(one, what), **common} for one in results for what in whats)
    assert report.count("| base, float32, ") == len(xla.MODES) * len(whats)
    assert "| base, float32, 256 × 16, XLA off | 1 |" in report
