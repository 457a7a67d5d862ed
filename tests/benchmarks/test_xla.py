"""XLA on and off: a measurement that fails says why."""

import argparse
import subprocess

import pytest

import xla

OPTIONS = argparse.Namespace(tokens=64, precision="float32", steps=1)


def test_a_measurement_that_fails_says_why(capfd, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        xla.run("quickstart", "nope", str(tmp_path), OPTIONS)
    assert "argument --worker: invalid choice: 'nope'" in capfd.readouterr().err
