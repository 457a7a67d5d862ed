"""Whether there is a GPU, which asks for other programs than a CPU.

On a CPU a fast kernel makes few passes over memory. On a GPU XLA sees to that; there it pays to
start few kernels, since each start takes some microseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

_compiled = ContextVar("compiled", default=False)


def has_gpu() -> bool:
    """Whether what is traced now will run on a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))


@contextmanager
def compiled(by_xla: bool) -> Iterator[None]:
    """Says of what is traced within whether XLA compiles it."""
    token = _compiled.set(by_xla)
    try:
        yield
    finally:
        _compiled.reset(token)


def fuses() -> bool:
    """Whether there is a GPU, and XLA makes one kernel of many operations of what is traced now."""
    return _compiled.get() and has_gpu()


def apart(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """Has XLA compute some tensors first, and fuse nothing across this point (where `fuses`).

    Nor does XLA take two equal computations for one, if one is made of these tensors and the other
    is not. It has no gradient.

    Args:
        tensors: of any shapes and dtypes.

    Returns:
        the same.
    """
    return list(xla.optimization_barrier(*tensors)) if fuses() else list(tensors)
