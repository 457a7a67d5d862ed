"""Back-translation from parallel and monolingual text to a model."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import CHECKOUT
from tests.training.two_processes import write_experiment


@pytest.mark.slow
def test_a_killed_run_goes_on_to_a_scored_model(tmp_path):
    write_experiment(tmp_path)
    gin = (tmp_path / "tiny.gin").read_text().splitlines()
    gin = [line for line in gin if "Corpus" not in line] + ["TrainingSchedule.steps = 3"]
    (tmp_path / "tiny.gin").write_text("\n".join(gin))
    # A checkout whose environment.sh makes no environment.
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(CHECKOUT / "scripts" / "back_translate.sh", scripts)
    (scripts / "environment.sh").write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    command = ["bash", str(scripts / "back_translate.sh"), "--gin_file=tiny.gin", "--runs=runs"]
    command += ["--train=train.source,train.target", "--dev=dev.source,dev.target"]
    command += ["--monolingual=dev.target", "--method=noise", "--weights=2:1"]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    back = tmp_path / "runs" / "back.txt"
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True) as run:
        while not back.exists():
            assert run.poll() is None
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGKILL)
    translations = back.read_text()
    assert translations.count("\n") == (tmp_path / "dev.target").read_text().count("\n")
    run_again = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    assert run_again.returncode == 0
    assert b"BLEU" in run_again.stdout
    assert back.read_text() == translations
    sources = (tmp_path / "runs" / "forward" / "data" / "prepared" / "train.source.txt").read_text()
    assert "<BT> " in sources
