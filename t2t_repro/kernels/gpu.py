"""Whether there is a GPU, which asks for other programs than a CPU.

On a CPU a kernel is fast that passes over memory seldom. On a GPU XLA sees to that; there it pays
to start few programs, as each takes some microseconds whatever it does.
"""

import tensorflow as tf


def has_gpu() -> bool:
    """Whether what is traced now will run on a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))
