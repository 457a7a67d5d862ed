"""Writing to a cache in place.

Replaces tf.tensor_scatter_nd_update, which copies the whole cache at every step of decoding. Here
a step costs what its attention reads, however much has been decoded.
"""

import tensorflow as tf


def room(shape: list, dtype: tf.DType) -> tf.Tensor:
    """Zeros that may be written to: a constant of the graph must not be."""
    return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True)


def write_rows(rows: tf.Tensor, places: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Overwrites rows; the tensor given is used up.

    Args:
        rows: [rows, depth].
        places: [new], which rows to write.
        new: [new, depth].

    Returns:
        [rows, depth].
    """
    return tf.raw_ops.InplaceUpdate(x=rows, i=places, v=new)
