"""Shape checks at module boundaries."""

import tensorflow as tf


def check_last_axis(name: str, tensor: tf.Tensor, expected: int) -> None:
    """Checks that a tensor is [batch, length, expected].

    Raises:
        ValueError: with the received shape, the expected one and the mend.
    """
    shape = tuple(tensor.shape)
    if len(shape) != 3 or shape[-1] != expected:
        raise ValueError(
            f"{name} has the shape {shape}, expected [batch, length, {expected}]: "
            f"pass vectors of the width that the layer was built for."
        )


def check_ids(name: str, ids: tf.Tensor) -> None:
    """Checks that token ids are [batch, length].

    Raises:
        ValueError: with the received shape, the expected one and the mend.
    """
    shape = tuple(ids.shape)
    if len(shape) != 2:
        raise ValueError(
            f"{name} has the shape {shape}, expected [batch, length]: "
            f"pass one row of token ids for every sentence."
        )
