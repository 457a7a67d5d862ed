"""Scaled dot-product and multi-head attention (paper, section 3.2)."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.layers.dropout import Dropout
from t2t_repro.layers.layout import PADDED, Layout
from t2t_repro.layers.masks import apply_mask
from t2t_repro.layers.shapes import check_last_axis


def attention_weights(
    query: tf.Tensor, key: tf.Tensor, attention_mask: tf.Tensor | None = None
) -> tf.Tensor:
    """Computes softmax(Q K^T / sqrt(d_k)) (paper, equation 1).

    The softmax is taken in float32 whatever the computation's dtype.

    Args:
        query: [batch, heads, query_length, d_k].
        key: [batch, heads, key_length, d_k].
        attention_mask: boolean, broadcastable to [batch, query_length, key_length]; `True` = may
            attend.

    Returns:
        [batch, heads, query_length, key_length], the dtype of `query`.
    """
    d_k = query.shape[-1]
    scores = ops.matmul(query * d_k**-0.5, ops.transpose(key, (0, 1, 3, 2)))
    scores = apply_mask(ops.cast(scores, "float32"), attention_mask)
    # Not ops.softmax: it warns of a single key, which sentences of one token have.
    return ops.cast(tf.nn.softmax(scores), query.dtype)


@keras.saving.register_keras_serializable(package="t2t_repro")
class MultiHeadAttention(keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (paper, section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), without biases. The columns i·d_k ...
    (i+1)·d_k - 1 of the projections belong to head i.

    Args:
        num_heads: h, the number of heads.
        d_k: depth of a head's queries and keys.
        d_v: depth of a head's values.
        dropout: rate of dropout on the attention weights; 0 in the paper.
    """

    def __init__(
        self, num_heads: int, d_k: int, d_v: int, dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v
        self.dropout = dropout
        self.query_projection = self._projection(num_heads * d_k, "query")
        self.key_projection = self._projection(num_heads * d_k, "key")
        self.value_projection = self._projection(num_heads * d_v, "value")
        self.weights_dropout = Dropout(dropout, name="weights_dropout", dtype=self.dtype_policy)

    def _projection(self, width: int, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(width, use_bias=False, name=name, dtype=self.dtype_policy)

    def build(self, query_shape: tuple, memory_shape: tuple | None = None) -> None:
        """Creates W^Q, W^K, W^V [d_model, heads·depth] and W^O [heads·d_v, d_model]."""
        d_model = query_shape[-1]
        memory_shape = memory_shape or query_shape
        self.query_projection.build(query_shape)
        self.key_projection.build(memory_shape)
        self.value_projection.build(memory_shape)
        self.output_projection = self._projection(d_model, "output")
        self.output_projection.build((*query_shape[:-1], self.num_heads * self.d_v))
        self.built = True

    def project_query(self, query: tf.Tensor, layout: Layout = PADDED) -> tf.Tensor:
        """Q W^Q: [batch, query_length, d_model] → [batch, heads, query_length, d_k]."""
        return layout.split_heads(self.query_projection(query), self.num_heads)

    def project_memory(
        self, memory: tf.Tensor, layout: Layout = PADDED
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """K W^K and V W^V of what is attended to.

        Args:
            memory: [batch, key_length, d_model].
            layout: of `memory`.

        Returns:
            keys [batch, heads, key_length, d_k] and values [batch, heads, key_length, d_v].
        """
        keys = layout.split_heads(self.key_projection(memory), self.num_heads)
        return keys, layout.split_heads(self.value_projection(memory), self.num_heads)

    def attend(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Attends from queries to keys and values, all projected already.

        Args:
            queries: [batch, heads, query_length, d_k].
            keys: [batch, heads, key_length, d_k].
            values: [batch, heads, key_length, d_v].
            attention_mask: boolean, broadcastable to [batch, query_length, key_length]; `True` =
                may attend.
            training: whether dropout is active.
            layout: of the result.

        Returns:
            [batch, query_length, d_model].
        """
        context = self.context(queries, keys, values, attention_mask, training)
        return self.output_projection(layout.join_heads(context))

    def context(
        self,
        queries: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """softmax(Q K^T / sqrt(d_k)) V, with dropout on the weights; the arguments of `attend`.

        Returns:
            [batch, heads, query_length, d_v].
        """
        weights = attention_weights(queries, keys, attention_mask)
        return ops.matmul(self.weights_dropout(weights, training=training), values)

    def call(
        self,
        query: tf.Tensor,
        memory: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        layout: Layout = PADDED,
        memory_layout: Layout | None = None,
    ) -> tf.Tensor:
        """Attends from `query` to `memory`, or to `query` itself where there is no memory.

        Args:
            query: [batch, query_length, d_model].
            memory: [batch, key_length, d_model], or None for self-attention.
            attention_mask: boolean, broadcastable to [batch, query_length, key_length]; `True` =
                may attend.
            training: whether dropout is active.
            layout: of `query` and of the result.
            memory_layout: of `memory`; that of `query` unless given.

        Returns:
            [batch, query_length, d_model].

        Raises:
            ValueError: if the width of `query` is not the one the layer was built for.
        """
        check_last_axis("query", query, self.query_projection.kernel.shape[0])
        # One product with W^Q, W^K and W^V side by side is slower: its parts must be copied.
        queries = self.project_query(query, layout)
        keys, values = self.project_memory(
            query if memory is None else memory, memory_layout or layout
        )
        return self.attend(queries, keys, values, attention_mask, training, layout)

    def attention_weights(
        self,
        query: tf.Tensor,
        memory: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """What `call` weighs the values of `memory` with, for the same arguments, every head's.

        Returns:
            [batch, heads, query_length, key_length]; every row sums to 1.
        """
        keys, _ = self.project_memory(query if memory is None else memory)
        return attention_weights(self.project_query(query), keys, attention_mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.dropout,
        }
