"""What is read of a run is what the run has done."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import forward_operations
from t2t_repro.analysis.parameter_count import parameter_count
from t2t_repro.analysis.run_record import Evaluation, read_run
from t2t_repro.data.batches import EpochReport
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import Score
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.runs.model_directory import ModelDirectory

SHAPE = ModelShape(50, 2, LayerConfig(8, 16, 2))
MODEL = {
    "vocab_size": 50,
    "num_layers": 2,
    "config": SHAPE.config.to_dict(),
    "positional_encoding": "interleaved",
    "max_length": None,
    "neighbourhood": None,
}
# 20 batches an epoch of 100 pairs, 9 source and 12 target tokens each.
EPOCH = EpochReport(100, 8, 3, 20, 900, 1200, 2400)


@pytest.fixture
def model_dir(tmp_path):
    return write_run(tmp_path / "model")


def write_run(path):
    """A model directory after 60 steps: three epochs."""
    path.mkdir(parents=True)
    (path / "model.json").write_text(json.dumps(MODEL))
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(x=tf.Variable(0.0)),
        str(path / "checkpoints"),
        2,
        checkpoint_name="step",
    )
    manager.save(checkpoint_number=60)
    ModelDirectory(path).write_epoch(EPOCH)
    with tf.summary.create_file_writer(str(path / "tensorboard")).as_default():
        for step, speed in ((20, 100.0), (40, 9.0), (60, 120.0)):
            tf.summary.scalar("train/real_tokens_per_second", speed, step=step)
            tf.summary.scalar("train/loss", 3.0, step=step)
    return path


def record(model_dir, split, evaluation):
    ModelDirectory(model_dir).write_scores(split, evaluation.as_dict())


def the_run(model_dir) -> Any:
    run = read_run(model_dir)
    assert run is not None
    return run


def test_steps_shape_speed_and_operations(model_dir):
    run = the_run(model_dir)
    assert (run.steps, run.parameters) == (60, parameter_count(SHAPE))
    # The median: one slow interval does not count.
    assert run.tokens_per_second == 100.0
    # Three epochs of 100 pairs, forward and twice as much backward.
    expected = 3 * 100 * 3 * forward_operations(SHAPE, 9, 12).total
    assert run.operations == pytest.approx(expected)
    assert run.dev is run.test is None


def test_evaluations_of_each_split_are_read_back(model_dir):
    scores = [Score("BLEU", 20.5, "tok:13a"), Score("exact match", 3.0)]
    record(model_dir, "dev", Evaluation("checkpoints/step-40", 6.0, scores[:1]))
    record(model_dir, "dev", Evaluation("checkpoints/step-60", 5.0, scores))
    record(model_dir, "test", Evaluation("averaged/step-60", 4.0, []))
    run = the_run(model_dir)
    assert run.dev == Evaluation("checkpoints/step-60", 5.0, scores)
    assert run.dev.score("BLEU") == scores[0]
    assert run.dev.score("chrF") is None
    assert run.test.checkpoint == "averaged/step-60"
    assert sorted(path.name for path in (model_dir / "scores").iterdir()) == [
        "dev.json",
        "test.json",
    ]


def test_a_run_that_has_not_begun_is_none_and_a_young_one_has_no_speed(model_dir, tmp_path):
    assert read_run(tmp_path / "nothing") is None
    for path in (model_dir / "tensorboard").iterdir():
        path.unlink()
    assert the_run(model_dir).tokens_per_second is None


def test_a_file_that_is_missing_or_damaged_is_named(model_dir):
    (model_dir / "epoch.json").write_text("{")
    with pytest.raises(UserError, match=r"epoch\.json cannot be read"):
        read_run(model_dir)
    (model_dir / "epoch.json").unlink()
    with pytest.raises(UserError, match=r"epoch\.json cannot be read .* start the trainer again"):
        read_run(model_dir)


def test_scores_of_numpy_are_written_too(model_dir):
    score = Score("BLEU", float(np.float32(1.5)))
    record(model_dir, "dev", Evaluation("best/step-60", 2.0, [score]))
    assert the_run(model_dir).dev.scores == [score]
