"""Weights as a loop uses them."""

from collections import defaultdict
from collections.abc import Iterable

import keras
import tensorflow as tf

from t2t_repro.model.kernels.weight_values import with_values


class LoopWeights:
    """Weights as a loop uses them: read once, before it.

    Matrices are cast to the dtype that they are multiplied in; scales and biases keep theirs.
    Vectors of one width are stacked into one tensor, because a loop hands every tensor that it uses
    from step to step, by three operations each.

    Args:
        weights: of a model, as they are now.
        dtype: in which matrices are multiplied.
    """

    def __init__(self, weights: Iterable[keras.Variable], dtype: str) -> None:
        self._matrices: list[tuple[keras.Variable, tf.Tensor]] = []
        vectors: dict[int, list[tuple[keras.Variable, tf.Tensor]]] = defaultdict(list)
        for weight in weights:
            value = tf.convert_to_tensor(weight.value)
            if value.shape.rank == 1:
                vectors[value.shape[0]].append((weight, value))
            else:
                self._matrices.append((weight, tf.cast(value, dtype)))
        self._vectors = [
            ([weight for weight, _ in pairs], tf.stack([value for _, value in pairs]))
            for pairs in vectors.values()
        ]

    def scope(self) -> keras.StatelessScope:
        """A scope in which the weights have these values."""
        pairs = [*self._matrices]
        for weights, values in self._vectors:
            pairs += zip(weights, tf.unstack(values), strict=True)
        return with_values(pairs)
