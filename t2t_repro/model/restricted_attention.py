"""Self-attention restricted to a neighbourhood (paper, section 4).

The paper's "neighborhood of size r in the input sequence centered around the respective output
position" is the position itself and r // 2 others on each side: r positions for an odd r, r + 1 for
an even one. In a decoder it is the position itself and the r // 2 before it.
"""

from functools import partial
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.cache import KeysValues
from t2t_repro.model.kernels import PLAIN
from t2t_repro.model.kernels.blocked_attention import blocked_attention
from t2t_repro.model.masks import neighbourhood_mask, window_of
from t2t_repro.model.settings import LayerConfig


@keras.saving.register_keras_serializable(package="t2t_repro")
class RestrictedSelfAttention(MultiHeadAttention):
    """Multi-head self-attention to nearby positions, with the weights of `MultiHeadAttention`.

    It is called without a memory, and with a mask [batch, 1, length], the same for all queries. A
    position always sees itself, even if the mask hides it: padding may have nothing else to see.

    `kernels.blocked_attention` runs in the place of attention under `neighbourhood_mask`, unless
    T2T_REPRO_PLAIN=1 or the weights are recorded.

    The first three arguments, and `kwargs`, are those of `MultiHeadAttention`.

    Args:
        neighbourhood: r.
        is_causal: whether later positions are hidden.
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        neighbourhood: int,
        is_causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, d_k, d_v, **kwargs)
        self.neighbourhood = neighbourhood
        self.is_causal = is_causal
        self._window = window_of(neighbourhood, is_causal)

    def _attend(
        self,
        queries: tf.Tensor,
        keys_values: KeysValues,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Attends within the neighbourhood; `attention_mask` is boolean [batch, 1, length].

        The other arguments and the result are those of `scaled_dot_product_attention`.
        """
        # A recorder gets the weights of all positions, which no block has.
        if PLAIN or self.recorder:
            mask = neighbourhood_mask(tf.shape(queries)[2], self._window, attention_mask)
            return self.scaled_dot_product_attention(queries, keys_values, mask, training)
        attend = partial(self.scaled_dot_product_attention, training=training)
        return blocked_attention(attend, queries, keys_values, attention_mask, self._window)


def new_attention(
    config: LayerConfig, neighbourhood: int | None = None, is_causal: bool = False, **kwargs: Any
) -> MultiHeadAttention:
    """Makes an attention layer, restricted if there is a neighbourhood (self-attention only).

    Args:
        config: sizes, rates and initialization.
        neighbourhood: r, or None to attend to all positions.
        is_causal: whether a restricted one hides later positions; without a neighbourhood it has no
            effect, and the caller's mask has to.
        kwargs: those of a Keras layer, such as its name.
    """
    sizes = (config.num_heads, config.key_depth, config.value_depth)
    options = kwargs | {
        "dropout": config.attention_dropout,
        "use_bias": config.attention_biases,
        "initialization": config.initialization,
    }
    if neighbourhood is None:
        return MultiHeadAttention(*sizes, **options)
    return RestrictedSelfAttention(*sizes, neighbourhood, is_causal, **options)
