"""The norm of all gradients in a few programs.

Replaces tf.linalg.global_norm on a GPU, which there runs two programs for each of some two hundred
gradients. On a CPU the copy that this makes takes longer.
"""

from collections.abc import Sequence

import tensorflow as tf

from t2t_repro.model.kernels import gpu


def global_norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Computes sqrt(Σ g²) over all gradients.

    Args:
        gradients: of any shapes, float32.

    Returns:
        a float32 scalar.
    """
    if not gpu.has_gpu():
        return tf.linalg.global_norm(gradients)
    of_shape: dict[tuple[int, ...], list[tf.Tensor]] = {}
    for gradient in gradients:
        of_shape.setdefault(tuple(gradient.shape), []).append(gradient)
    # A single one need not be copied.
    stacked = [alike[0] if len(alike) == 1 else tf.stack(alike) for alike in of_shape.values()]
    return tf.linalg.global_norm(stacked)
