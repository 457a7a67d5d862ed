"""Positional encoding: sinusoids or learned positions (paper, section 3.5; Table 3, row E)."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.embedding import new_table
from t2t_repro.model.keras_model import SameShape
from t2t_repro.model.kernels.gradients import look_up
from t2t_repro.model.kernels.packing import Packed, Vectors, map_positions

_look_up = kernels.fast(look_up, tf.gather)


def interleaved_sinusoids(positions: tf.Tensor, d_model: int) -> tf.Tensor:
    """Computes the paper's encoding [length, d_model], in float32: sines and cosines alternate.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model)).
    """
    exponents = ops.arange(0, d_model, 2, dtype="float32") / d_model
    angles = ops.cast(positions, "float32")[:, None] * ops.power(10000.0, -exponents)[None, :]
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(pairs, (-1, d_model))


def halved_sinusoids(positions: tf.Tensor, d_model: int) -> tf.Tensor:
    """Computes the paper's encoding [length, d_model] in another order: all sines, then cosines.

    Hugging Face has this order for Marian models. The angles are those of `interleaved_sinusoids`;
    `concatenated_sinusoids` has others.
    """
    encodings = interleaved_sinusoids(positions, d_model)
    return ops.concatenate([encodings[:, 0::2], encodings[:, 1::2]], axis=-1)


def concatenated_sinusoids(positions: tf.Tensor, d_model: int) -> tf.Tensor:
    """Computes T2T's encoding [length, d_model], in float32: all sines, then all cosines.

    The function is common_attention.get_timing_signal_1d. The angles are
    pos · 10000^(-k / (d_model/2 - 1)), k = 0 ... d_model/2 - 1; for a d_model of 2 only pos.
    """
    exponents = ops.arange(d_model // 2, dtype="float32") / max(d_model // 2 - 1, 1)
    angles = ops.cast(positions, "float32")[:, None] * ops.power(10000.0, -exponents)[None, :]
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


SINUSOIDS = {
    "interleaved": interleaved_sinusoids,
    "halves": halved_sinusoids,
    "concatenated": concatenated_sinusoids,
}
"""The encodings that are computed: functions of positions [length] and d_model."""


@keras.saving.register_keras_serializable(package="t2t_repro")
class PositionalEncoding(SameShape):
    """Adds its position's encoding to every vector: x + PE.

    Args:
        kind: a name in `SINUSOIDS`, or "learned"; "interleaved" is the paper's.
        max_length: the number of learned positions, for "learned".
        first: the number of the first position, for sinusoids.

    Raises:
        UserError: `kind` is unknown; or it is "learned", but `max_length` is not given.
    """

    def __init__(
        self,
        kind: str = "interleaved",
        max_length: int | None = None,
        first: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if kind not in (*SINUSOIDS, "learned"):
            raise UserError(f"kind is {kind!r}, expected one of {[*SINUSOIDS, 'learned']}.")
        if kind == "learned" and not max_length:
            problem = f"max_length is {max_length!r}, expected the number of positions to learn"
            raise UserError(f"{problem} with kind='learned': give max_length.")
        self.kind = kind
        self.max_length = max_length
        self.first = first

    def build(self, x_shape: tuple) -> None:
        """Keeps d_model; creates the learned positions [max_length, d_model], if any."""
        self.d_model = x_shape[-1]
        if self.kind == "learned":
            assert self.max_length
            self.table = new_table(self, self.max_length, self.d_model)
        self.built = True

    def encode(self, positions: tf.Tensor) -> tf.Tensor:
        """Encodes positions, counted from 0: [length] → [length, d_model].

        Sinusoids are those of positions + `first`; a learned table has no such offset. It is not
        checked that positions are below `max_length`: past the end a gather on a GPU silently reads
        zeros. `call` checks static lengths; our own training and translation limit all; Keras's
        `fit` checks no others.
        """
        if self.kind == "learned":
            # A custom gradient takes a tensor, not a variable.
            return _look_up(ops.convert_to_tensor(self.table.value), positions)
        return SINUSOIDS[self.kind](positions + self.first, self.d_model)

    def call(self, x: Vectors) -> Vectors:
        """Adds the encodings of positions 0, 1, ...: [batch, length, d_model] → the same shape.

        Raises:
            ValueError: there are more positions than learned ones, and the length is static, that
                is, known while the graph is traced.
        """
        length = x.layout.length if isinstance(x, Packed) else tf.shape(x)[1]
        static = tf.get_static_value(length)  # None if a graph for any length is traced.
        if self.kind == "learned" and static is not None and static > self.max_length:
            problem = f"x has {static} positions, expected at most max_length={self.max_length}"
            raise ValueError(f"{problem}: shorten the sentences or learn more positions.")
        if not isinstance(x, Packed):
            encodings = self.encode(ops.arange(length))
        elif self.kind == "learned":
            encodings = self.encode(x.layout.positions)
        else:
            # Computed once for each position, not for each token; the learned ones are in a table.
            encodings = tf.gather(self.encode(ops.arange(length)), x.layout.positions)
        return map_positions(lambda vectors: vectors + ops.cast(encodings, vectors.dtype)[None], x)
