"""A model's weights, without the optimizer's state: out of a checkpoint, and into one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder

# Where `Checkpoints` keeps the values of a MovingAverage.
_AVERAGE = "average/values/{}/.ATTRIBUTES/VARIABLE_VALUE"


def name_of(weight: keras.Variable) -> str:
    """Returns a weight's name within its model, such as "encoder/layer_0/feed_forward/inner/bias".

    Keras numbers the models of a process: their names say nothing.
    """
    return str(weight.path).partition("/")[2]


def named_values(model: Transformer) -> dict[str, NDArray[np.float32]]:
    """Returns the values of all trainable weights by their names, see `name_of`."""
    return {name_of(weight): weight.numpy() for weight in model.trainable_variables}


def load_weights(model: Transformer, checkpoint: str) -> None:
    """Restores the weights that a model is used with, and nothing else, from a checkpoint.

    Those are their moving average, where the run has one.

    Raises:
        UserError: the checkpoint is of a model of other sizes, or damaged.
    """
    with _refusing_what_does_not_fit(checkpoint):
        _restore(model, checkpoint)
        reader = tf.train.load_checkpoint(checkpoint)
        if reader.has_tensor(_AVERAGE.format(0)):
            for number, weight in enumerate(model.trainable_variables):
                weight.assign(reader.get_tensor(_AVERAGE.format(number)))


def load_last_weights(model: Transformer, checkpoint: str) -> None:
    """Restores the weights that the last update left, whether or not the run averages them.

    Raises:
        UserError: the checkpoint is of a model of other sizes, or damaged.
    """
    with _refusing_what_does_not_fit(checkpoint):
        _restore(model, checkpoint)


def _restore(model: Transformer, checkpoint: str) -> None:
    status = tf.train.Checkpoint(model=model).restore(checkpoint)
    status.assert_existing_objects_matched().expect_partial()


@contextlib.contextmanager
def _refusing_what_does_not_fit(checkpoint: str) -> Iterator[None]:
    try:
        yield
    # TensorFlow walks over a graph of objects that the checkpoint holds, and checks little of it.
    except Exception as error:
        if not Path(f"{checkpoint}.index").exists():
            raise UserError(
                f"{checkpoint} is gone, as a run at work deletes its old ones: give the same "
                "command again, average with a smaller --last."
            ) from error
        raise UserError(
            f"{checkpoint} does not fit the model beside it ({reason_of(error)}): give another "
            "--checkpoint."
        ) from error


def save_weights(model: Transformer, folder: Path, step: int) -> None:
    """Writes the model's weights as the one checkpoint of a folder.

    Raises:
        UserError: they cannot be written.
    """
    CheckpointFolder(folder).write(tf.train.Checkpoint(model=model), step)
