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


def leading_axes(x: tf.Tensor) -> list[int | tf.Tensor]:
    """All axes but the last, for `tf.reshape`, which infers a single unknown one."""
    axes = x.shape[:-1].as_list()
    if axes.count(None) > 1:
        axes = [tf.shape(x)[i] if length is None else length for i, length in enumerate(axes)]
    return [-1 if length is None else length for length in axes]
