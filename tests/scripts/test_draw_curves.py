"""The curves of docs/tensorboard.png are those of a run's event files."""

import runpy

import pytest
import tensorflow as tf

from tests.processes import CHECKOUT

pytest.importorskip("matplotlib")
SCRIPT = runpy.run_path(str(CHECKOUT / "scripts" / "draw_curves.py"))


def test_the_scalars_of_a_run_become_a_picture(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path / "tensorboard")).as_default():
        for step in (200, 100):
            for tag in SCRIPT["CHARTS"]:
                tf.summary.scalar(tag, step / 1000, step=step)
            tf.summary.text("dev/translations", "no scalar", step=step)
    curves = SCRIPT["read_curves"](tmp_path)
    assert curves.keys() == SCRIPT["CHARTS"].keys()
    assert curves["train/loss"] == [(100, pytest.approx(0.1)), (200, pytest.approx(0.2))]
    SCRIPT["draw"](curves, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
