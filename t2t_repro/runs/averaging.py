"""The mean of the last checkpoints' weights (paper, section 6.1)."""

from collections.abc import Collection

import numpy as np

from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import load_weights


def average_weights(model: Transformer, checkpoints: Collection[str]) -> None:
    """Sets the model's weights to their mean over checkpoints.

    The mean is taken in float64, so that the mean of N copies is the copy.

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
