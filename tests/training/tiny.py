"""A model, an optimizer and batches small enough for many trainings."""

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import save_weights
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.settings import StepSettings, adam
from t2t_repro.training.train_step import TrainStep

VOCAB = 40

# Lengths of the target sentences of a global batch of six, by micro-batches of three: alike; the
# second micro-batch much shorter; the second micro-batch of padding alone.
LENGTHS = ([6, 5, 6, 4, 6, 6], [6, 6, 5, 1, 2, 0], [6, 3, 6, 0, 0, 0])


def tiny_model(dropout=0.0, num_layers=1, d_model=16, dtype="float32", seed=0, **sizes):
    keras.utils.set_random_seed(seed)
    config = LayerConfig(d_model=d_model, d_ff=32, num_heads=2, dropout=dropout)
    model = Transformer(VOCAB, num_layers, config, dtype=dtype, **sizes)
    model.build()
    return model


def written(path, model, subwords, config="", operative="", step=5):
    """A model directory with one checkpoint."""
    directory = ModelDirectory(path)
    directory.write_metadata(model, subwords, config, operative)
    save_weights(model, directory.checkpoints, step)
    return directory


def devices(replicas):
    """A strategy of so many of the CPU's logical devices; none for one."""
    if replicas == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])


def tiny_step(
    replicas=1, dropout=0.0, dtype="float32", optimizer=None, jit_compile=False, **settings
):
    """A TrainStep; `optimizer` is a function that makes one, `seed` one of the settings."""
    seed = settings.pop("seed", 7)
    with devices(replicas).scope():
        model = tiny_model(dropout, dtype=dtype)
        update = optimizer() if optimizer else adam(learning_rate=1e-3)
        return TrainStep(model, update, StepSettings(**settings), seed, jit_compile)


def untraced(model, optimizer, average=None, **settings) -> Any:
    """What checkpoints hold of a TrainStep, which takes seconds to make."""
    average = average or MovingAverage([])
    parts = {"model": model, "optimizer": optimizer, "average": average}
    return SimpleNamespace(**parts, settings=StepSettings(**settings))


def random_ids(rng, micro_batches, lengths, width):
    """Sentences of the given lengths, 0 for none: [micro-batches, rows, width] int32."""
    ids = rng.integers(2, VOCAB, (len(lengths), width)).astype(np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = 0
        if length:
            row[length - 1] = 1
    return ids.reshape(micro_batches, -1, width)


def global_batches(count, micro_batches, seed=0):
    """The same sentences in the same order, however they are cut into micro-batches."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        target_lengths = LENGTHS[number % len(LENGTHS)]
        source_lengths = [min(length, 4) for length in target_lengths]
        yield (
            random_ids(rng, micro_batches, source_lengths, 5),
            random_ids(rng, micro_batches, target_lengths, 6),
        )


def copies(model):
    return [weight.numpy().copy() for weight in model.trainable_variables]


def state_of(step):
    """Copies of the weights and the optimizer's state, of a TrainStep or a run."""
    variables = [*step.model.trainable_variables, *step.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable.value).copy() for variable in variables]


def assert_same(ours, theirs):
    """Bit for bit."""
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(ours, theirs, atol):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=0)
