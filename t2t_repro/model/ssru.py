"""The simpler simple recurrent unit, in the place of the decoder's self-attention.

Kim et al. (2019), "From Research to Production and Back: Ludicrously Fast Neural Machine
Translation" (D19-5632). Marian's students have it, Firefox Translations' models among them. In
decoding a layer remembers one vector, not the keys and values of all earlier positions.
"""

from typing import Any

import keras
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.cache import State
from t2t_repro.model.dense import Dense
from t2t_repro.model.keras_model import SameShape
from t2t_repro.model.kernels.packing import Vectors, first_rows, map_positions
from t2t_repro.model.kernels.recurrence import doubled_recurrence


def recurrence(factors: tf.Tensor, terms: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Computes c_t = f_t ⊙ c_{t-1} + u_t, one row after the other, with c_0 = 0.

    `kernels.recurrence.doubled_recurrence` runs in its place: an edit here has no effect, unless
    T2T_REPRO_PLAIN=1 or the line with `kernels.fast` is changed.

    Args:
        factors: f [rows, width] float32, 0 where a sentence begins.
        terms: u, the shape of `factors`, as is the result.
        length: positions of the longest sentence, which the formula does not need.
    """
    # `row` is f_t and u_t.
    return tf.scan(lambda c, row: row[0] * c + row[1], (factors, terms), tf.zeros_like(terms[0]))


_recurrence = kernels.fast(doubled_recurrence, recurrence)


@keras.saving.register_keras_serializable(package="t2t_repro")
class SSRU(SameShape):
    """relu(c_t), where c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ v_t and c_0 = 0.

    f_t = sigmoid(x_t W_f + b_f), v_t = x_t W. It takes the place of self-attention: a post-norm
    layer then computes LayerNorm(x_t + relu(c_t)). In mixed precision f, v and c are float32.

    Args:
        d_model: width of input, state and output.
    """

    def __init__(self, d_model: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        dtype = self.dtype_policy
        self.value_projection = Dense(d_model, use_bias=False, name="value", dtype=dtype)
        self.forget_projection = Dense(d_model, name="forget", dtype=dtype)

    def call(
        self,
        x: Vectors,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        past: State | None = None,
    ) -> Vectors:
        """Computes all positions of x, or with a past the next one.

        Args:
            x: [batch, length, d_model]; with a past [batch, beam, d_model].
            attention_mask: has no effect, since a state depends on earlier positions only.
            training: whether gradients will be computed; there is no dropout.
            past: the state of every hypothesis; it is replaced by this step's.

        Returns:
            the shape of `x`.
        """

        # `map_positions` calls it once, so a past is replaced once.
        def outputs_of(vectors: tf.Tensor) -> tf.Tensor:
            values = tf.cast(self.value_projection(vectors, training=training), tf.float32)
            gate_logits = tf.cast(self.forget_projection(vectors, training=training), tf.float32)
            factors = tf.sigmoid(gate_logits)
            # 1 - f is sigmoid(-gate_logits): for an f near 1 the difference is rounded to 0.
            terms = tf.sigmoid(-gate_logits) * values
            if past is None:
                states = self._all_states(factors, terms, x)
            else:
                states = factors * past.kept + terms
                past.kept = states
            return tf.cast(tf.nn.relu(states), self.compute_dtype)

        return map_positions(outputs_of, x)

    def _all_states(self, factors: tf.Tensor, terms: tf.Tensor, x: Vectors) -> tf.Tensor:
        """Computes the states c of all positions: the shape of `terms`, float32.

        `x` is the layer's input, packed or not; it tells where the sentences begin.
        """
        is_first, length = first_rows(x)
        # All rows of the batch are one sequence. A factor of 0 at the beginning of each sentence
        # forgets the sentence before.
        factor_rows = tf.where(is_first[:, None], 0.0, tf.reshape(factors, [-1, self.d_model]))
        term_rows = tf.reshape(terms, [-1, self.d_model])
        return tf.reshape(_recurrence(factor_rows, term_rows, length), tf.shape(terms))
