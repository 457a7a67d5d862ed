"""A model's weights, without the optimizer's state: out of a checkpoint, and into one."""

from pathlib import Path

import tensorflow as tf

from t2t_repro.errors import UserError, reason_of
from t2t_repro.models.transformer import Transformer
from t2t_repro.strangers.checkpoint_index import check_index
from t2t_repro.training.checkpoint_folder import CheckpointFolder


def load_weights(model: Transformer, checkpoint: str) -> None:
    """Restores the model's weights, and nothing else, from a checkpoint.

    Raises:
        UserError: the checkpoint is of a model of other sizes, or damaged.
    """
    try:
        check_index(checkpoint)
        status = tf.train.Checkpoint(model=model).restore(checkpoint)
        status.assert_existing_objects_matched().expect_partial()
    # TensorFlow walks over a graph of objects that the checkpoint holds, and checks little of it.
    except Exception as error:
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
