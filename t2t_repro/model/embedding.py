"""The embedding that source, target and softmax share (paper, section 3.4)."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.model import kernels
from t2t_repro.model.kernels.gradients import look_up
from t2t_repro.vocabulary import PAD_ID

_look_up = kernels.fast(look_up, tf.gather)


def new_table(layer: keras.layers.Layer, rows: int, d_model: int) -> keras.Variable:
    """Adds a table [rows, d_model] to a layer: normal, standard deviation 1/√d_model, as in T2T."""
    normal = keras.initializers.RandomNormal(stddev=d_model**-0.5)
    return layer.add_weight(name="table", shape=(rows, d_model), initializer=normal, autocast=False)


@keras.saving.register_keras_serializable(package="t2t_repro")
class SharedEmbedding(keras.layers.Layer):
    """Embeds ids as E[id]·sqrt(d_model), and scores vectors as x E^T.

    PAD is embedded as the zero vector; its row of E stays a column of the softmax. E is a
    `new_table`.

    Args:
        vocab_size: rows of E.
        d_model: width of E.
    """

    def __init__(self, vocab_size: int, d_model: int, **kwargs: Any) -> None:
        # Ids that Keras gives as floating point must not become bfloat16, which rounds them.
        super().__init__(autocast=False, **kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model

    def build(self, ids_shape: tuple) -> None:
        """Creates E [vocab, d_model]."""
        self.table = new_table(self, self.vocab_size, self.d_model)
        self.built = True

    def compute_output_shape(self, ids_shape: tuple) -> tuple[int | None, ...]:
        """Returns [batch, length, d_model]."""
        return (*ids_shape, self.d_model)

    def table_tensor(self) -> tf.Tensor:
        """Returns E [vocab, d_model], float32."""
        # A custom gradient takes a tensor, not a variable; XLA cannot capture a variable there.
        return tf.convert_to_tensor(self.table.value)

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Embeds ids [batch, length] as E[id]·sqrt(d_model): [batch, length, d_model].

        The result has the compute dtype; the vector of PAD is zero. Ids may be floating point, as
        Keras gives them when it builds a model under several replicas.
        """
        if not ids.dtype.is_integer:
            ids = tf.cast(ids, tf.int32)
        # Cast after the look-up, so that gradients are summed in float32: a frequent id sums
        # thousands of rows, and in bfloat16 such a sum stops growing.
        vectors = tf.cast(_look_up(self.table_tensor(), ids), self.compute_dtype)
        vectors = vectors * self.d_model**0.5
        is_token = tf.cast(tf.not_equal(ids, PAD_ID), vectors.dtype)
        return vectors * is_token[..., None]

    def looked_up(self) -> NDArray[np.float32]:
        """Returns E [vocab, d_model] with zeros for PAD, for a format that looks ids up unmasked.

        The softmax needs the row of PAD, so such a format has two tables.
        """
        table = np.array(self.table)
        table[PAD_ID] = 0
        return table

    def transposed_table(self, ids: tf.Tensor | None = None) -> tf.Tensor:
        """Returns E^T [d_model, vocab], in the compute dtype; or the columns of some ids."""
        table = self.table_tensor() if ids is None else tf.gather(self.table_tensor(), ids)
        return tf.transpose(tf.cast(table, self.compute_dtype))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "vocab_size": self.vocab_size, "d_model": self.d_model}
