"""A model's weights, without the optimizer's state: read, written and averaged."""

from collections.abc import Collection
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder

# The values of a MovingAverage in a run's checkpoint.
_AVERAGE = "average/values/{}/.ATTRIBUTES/VARIABLE_VALUE"
# A weight has one of these in a checkpoint, by the shorter path to it.
_WEIGHTS = ("model/", "optimizer/_trainable_variables/")


def name_of(weight: keras.Variable) -> str:
    """Returns a weight's name in its model, such as "encoder/layer_0/feed_forward/inner/bias"."""
    # Keras numbers the models of a process: their own names say nothing.
    return str(weight.path).partition("/")[2]


def named_values(model: Transformer) -> dict[str, NDArray[np.float32]]:
    """Returns the values of all trainable weights by name; see `name_of`."""
    return {name_of(weight): weight.numpy() for weight in model.trainable_variables}


def load_weights(model: Transformer, checkpoint: str) -> None:
    """Restores the weights that a model is used with from a checkpoint.

    These are the moving average of a run that keeps one.

    Raises:
        UserError: the checkpoint is of a model of other sizes, or damaged.
    """
    try:
        reader = tf.train.load_checkpoint(checkpoint)
        # Without an error, TensorFlow would restore a model that lacks some of the layers.
        held = sum(name.startswith(_WEIGHTS) for name in reader.get_variable_to_shape_map())
        if held > len(model.variables):
            raise ValueError(f"it has {held} weights, the model {len(model.variables)}")
        status = tf.train.Checkpoint(model=model).restore(checkpoint)
        status.assert_existing_objects_matched().expect_partial()
        if reader.has_tensor(_AVERAGE.format(0)):
            for number, weight in enumerate(model.trainable_variables):
                weight.assign(reader.get_tensor(_AVERAGE.format(number)))
    # TensorFlow walks over a graph of objects that the checkpoint holds, and checks little of it.
    except Exception as error:
        raise UserError(
            f"{checkpoint} does not fit the model beside it ({reason_of(error)}): give another "
            "--checkpoint."
        ) from error


def save_weights(model: Transformer, folder: Path, step: int) -> None:
    """Writes the weights as the only checkpoint of a folder.

    Raises:
        UserError: they cannot be written.
    """
    CheckpointFolder(folder).write(tf.train.Checkpoint(model=model), step)


def average_weights(model: Transformer, checkpoints: Collection[str]) -> None:
    """Sets the weights to their mean over checkpoints (paper, section 6.1).

    The mean is computed in float64, so that the mean of N copies is the copy.

    Args:
        model: the Transformer that the checkpoints are of.
        checkpoints: their paths, at least one.

    Raises:
        UserError: a checkpoint is of a model of other sizes, or damaged.
    """
    sums = [np.zeros(weight.shape, np.float64) for weight in model.trainable_variables]
    for path in checkpoints:
        load_weights(model, path)
        for total, weight in zip(sums, model.trainable_variables, strict=True):
            total += weight.numpy()
    for total, weight in zip(sums, model.trainable_variables, strict=True):
        weight.assign((total / len(checkpoints)).astype(np.float32))
