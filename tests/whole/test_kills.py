"""A trainer and a translation that are killed (SIGKILL) end as if nothing had happened."""

import gzip
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.processes import CHECKOUT, assert_only_our_lines
from tests.whole.runs import DATA, GIN, write_lines, write_task

pytestmark = pytest.mark.slow

STEPS = 60
BINDINGS = [
    f"TrainingSchedule.steps = {STEPS}",
    "TrainingSchedule.evaluate_every = 20",
    "Checkpoints.every_steps = 4",
    "LayerConfig.dropout = 0.1",
]


def start(folder, verb, *arguments):
    """Starts a command as a user would."""
    return subprocess.Popen(
        [sys.executable, "-m", f"t2t_repro.{verb}", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    """Waits for a command; returns its status."""
    process.communicate()
    return process.returncode


def kill_after(process, is_time, seconds):
    """Kills a command some seconds after something has happened."""
    end = time.monotonic() + 300
    while not is_time() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    write_task(folder, GIN)
    return folder


def test_a_trainer_killed_three_times_ends_with_the_same_bits(folder):
    draw = random.Random(time.time_ns())
    bindings = [f"--gin_param={binding}" for binding in BINDINGS]

    def train(model):
        flags = ["--gin_file=task.gin", DATA, f"--model_dir={model}", "--log_format=absl"]
        return start(folder, "trainer", *flags, *bindings)

    trainer = train("whole")
    assert_only_our_lines(trainer.communicate()[1])
    assert trainer.returncode == 0
    for step in (4, 20, 40):
        written = folder / "killed" / "checkpoints" / f"step-{step}.index"
        kill_after(train("killed"), written.exists, draw.uniform(0, 1))
    assert ended(train("killed")) == 0
    one, other = (
        tf.train.load_checkpoint(str(folder / name / "checkpoints" / f"step-{STEPS}"))
        for name in ("whole", "killed")
    )
    for name in one.get_variable_to_shape_map():
        np.testing.assert_array_equal(one.get_tensor(name), other.get_tensor(name))


@pytest.mark.parametrize("arguments", [["--input=in", "--split_sentences"], ["--file=in.srt"]])
def test_a_killed_translation_goes_on(folder, arguments):
    lines = [f"{number} ant bee. Cat." for number in range(10_000)]
    write_lines(folder / "in", lines)
    write_lines(folder / "in.srt", [one for line in lines for one in ("0 --> 1", line, "")])
    arguments = ["--model_dir=whole", *arguments]
    assert ended(start(folder, "translate", *arguments, "--output=expected.gz")) == 0
    killed = start(folder, "translate", *arguments, "--output=out")
    kill_after(killed, (folder / "out.partial").exists, 0.1)
    assert (folder / "out.partial").exists()
    other = [*arguments, "--output=out", "--source_language=de"]
    assert ended(start(folder, "translate", *other)) == 2
    assert ended(start(folder, "translate", *arguments, "--output=out")) == 0
    with gzip.open(folder / "expected.gz") as expected:
        assert (folder / "out").read_bytes() == expected.read()
    assert not (folder / "out.partial").exists()
