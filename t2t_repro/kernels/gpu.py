"""Whether there is a GPU, which asks for other programs than a CPU.

On a CPU a fast kernel makes few passes over memory. On a GPU XLA sees to that; there it pays to
start few kernels, since each start takes some microseconds.
"""

import tensorflow as tf


def has_gpu() -> bool:
    """Whether what is traced now will run on a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))
