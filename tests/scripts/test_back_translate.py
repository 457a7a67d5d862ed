"""Back-translation from parallel and monolingual text to a model; distillation of that model."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import CHECKOUT
from tests.training.two_processes import write_experiment


def kill_and_run_again(script, arguments, folder, translations):
    """Kills a script once it has translated, runs it again, and returns what it prints."""
    command = ["bash", str(folder / "scripts" / script), *arguments]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) as run:
        while not translations.exists():
            assert run.poll() is None
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGKILL)
    first = translations.read_bytes()
    run_again = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
    assert run_again.returncode == 0
    assert translations.read_bytes() == first
    return run_again.stdout.decode()


def test_a_student_that_cannot_be_trained_is_refused_before_the_translation(tmp_path):
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts" / "distill.sh", tmp_path / "scripts")
    (tmp_path / "scripts/environment.sh").write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    for name in ("model.json", "text"):
        (tmp_path / name).write_text("a\n")
    # As of an imported teacher: no learning rate.
    (tmp_path / "config.gin").write_text("Transformer.num_layers = 1\n")
    arguments = ["--teacher=.", "--source=text", "--dev=text,text", "--runs=runs"]
    command = ["bash", str(tmp_path / "scripts" / "distill.sh"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    assert (run.returncode, b"learning_rate" in run.stderr) == (2, True)
    assert not (tmp_path / "runs" / "student.gin").exists()


@pytest.mark.slow
def test_killed_runs_go_on_to_scored_models(tmp_path):
    write_experiment(tmp_path)
    gin = (tmp_path / "tiny.gin").read_text().splitlines()
    gin = [line for line in gin if "Corpus" not in line] + ["TrainingSchedule.steps = 3"]
    (tmp_path / "tiny.gin").write_text("\n".join(gin))
    # A checkout whose environment.sh makes no environment.
    scripts, runs = tmp_path / "scripts", tmp_path / "runs"
    scripts.mkdir()
    for name in ("back_translate.sh", "distill.sh"):
        shutil.copy(CHECKOUT / "scripts" / name, scripts)
    (scripts / "environment.sh").write_text(f"PATH={Path(sys.executable).parent}:$PATH\n")
    back, dev = runs / "back.txt", "--dev=dev.source,dev.target"
    arguments = ["--gin_file=tiny.gin", "--runs=runs", "--train=train.source,train.target", dev]
    arguments += ["--monolingual=dev.target", "--method=noise", "--weights=2:1"]
    assert "BLEU" in kill_and_run_again("back_translate.sh", arguments, tmp_path, back)
    assert len(back.read_text().splitlines()) == 4
    prepared = runs / "forward" / "data" / "prepared"
    assert "<BT> " in (prepared / "train.source.txt").read_text()

    (tmp_path / "more.source").write_text("\n" + "word " * 300 + "\n" + "ant bee\n" * 9)
    translations = runs / "student" / "translations.txt"
    # The teacher's own are all cut off, after so few steps, and would be dropped.
    translations.parent.mkdir()
    translations.write_text("\n\n" + "bee ant\n" * 9)
    arguments = ["--teacher=runs/forward/model", "--source=more.source", "--runs=runs/student", dev]
    printed = kill_and_run_again("distill.sh", arguments, tmp_path, translations)
    shown = re.findall(r"(teacher|student), beam (\d): BLEU .* sentences/s", printed)
    assert shown == [("teacher", "4"), ("teacher", "1"), ("student", "4"), ("student", "1")]
    assert len(translations.read_text().split("\n")) == 12
    sizes = json.loads((runs / "student" / "model" / "model.json").read_text())
    assert sizes["num_decoder_layers"] == 2
