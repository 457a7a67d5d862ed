"""Scaled dot-product and multi-head attention (paper, section 3.2)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.cache import KeysValues, Past
from t2t_repro.model.dense import Dense, Projection, heads_initializer, leading_axes, side_by_side
from t2t_repro.model.dropout import Dropout
from t2t_repro.model.keras_model import SameShape
from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels.gradients import softmax as fast_softmax
from t2t_repro.model.kernels.packing import Packed, Vectors, map_positions
from t2t_repro.model.masks import apply_mask, with_implicit_mask
from t2t_repro.model.settings import Initialization


def softmax(scores: tf.Tensor) -> tf.Tensor:
    """Computes e^z / Σ e^z over a query's scores z, in float32.

    `kernels.gradients.softmax` runs in its place: an edit here has no effect, unless
    T2T_REPRO_PLAIN=1 or the line with `kernels.fast` is changed.

    Args:
        scores: [batch, heads, query_length, key_length]; the result has its shape and dtype.
    """
    return tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), scores.dtype)


_softmax = kernels.fast(fast_softmax, softmax)


def attention_weights(
    query: tf.Tensor, key: tf.Tensor, attention_mask: tf.Tensor | None = None
) -> tf.Tensor:
    """Computes softmax(Q K^T / sqrt(d_k)), the weights of the paper's equation 1.

    Args:
        query: [batch, heads, query_length, d_k].
        key: [batch, heads, key_length, d_k].
        attention_mask: boolean, broadcastable to [batch, query_length, key_length]; `True` = may
            attend; None for all.

    Returns:
        [batch, heads, query_length, key_length], the dtype of `query`.
    """
    d_k = query.shape[-1]
    scores = tf.matmul(query * d_k**-0.5, key, transpose_b=True)
    return _softmax(apply_mask(scores, attention_mask))


def split_heads(x: Vectors, num_heads: int) -> tf.Tensor:
    """Splits heads: [batch, length, heads·depth], or packed → [batch, heads, length, depth]."""
    if isinstance(x, Packed):
        return x.layout.split_heads(x.vectors, num_heads)
    shape = [*leading_axes(x), num_heads, x.shape[-1] // num_heads]
    return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])


def join_heads(heads: tf.Tensor, like: Vectors) -> Vectors:
    """Joins heads: [batch, heads, length, depth] → [batch, length, heads·depth].

    `like` are the vectors that the heads were computed from; the result is packed if they are.
    """
    if isinstance(like, Packed):
        return Packed(like.layout.join_heads(heads), like.layout)
    _, num_heads, _, depth = heads.shape
    return tf.reshape(tf.transpose(heads, [0, 2, 1, 3]), [*leading_axes(like), num_heads * depth])


@keras.saving.register_keras_serializable(package="t2t_repro")
class MultiHeadAttention(SameShape):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (paper, section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V), without biases in the paper. Columns
    i·d_k ... (i+1)·d_k - 1 of a projection belong to head i.

    Args:
        num_heads: h, the number of heads.
        d_k: depth of a head's queries and keys.
        d_v: depth of a head's values.
        dropout: rate of dropout on the attention weights; 0 in the paper.
        use_bias: whether the four projections have biases.
        initialization: initial values of W^Q, W^K and W^V; see `model.dense`.

    Attributes:
        recorder: a function that gets the attention weights [batch, heads, query_length,
            key_length] of every call; None to record nothing.
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        dropout: float = 0.0,
        use_bias: bool = False,
        initialization: Initialization = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v
        self.dropout = dropout
        self.use_bias = use_bias
        self.initialization = initialization
        self.query_projection = self._new_projection(num_heads * d_k, "query", initialization)
        self.key_projection = self._new_projection(num_heads * d_k, "key", initialization)
        self.value_projection = self._new_projection(num_heads * d_v, "value", initialization)
        # W^O needs the width of the query: see `build`.
        self.weights_dropout = Dropout(dropout, name="weights_dropout", dtype=self.dtype_policy)
        self.recorder: Callable[[tf.Tensor], None] | None = None

    def _new_projection(self, width: int, name: str, initialization: Initialization) -> Dense:
        """Makes a projection to `width` units; `initialization` is that of its matrix."""
        kernel = heads_initializer(initialization)
        options = {"use_bias": self.use_bias, "dtype": self.dtype_policy}
        return Dense(width, kernel_initializer=kernel, name=name, **options)

    def build(self, query_shape: tuple, memory_shape: tuple | None = None) -> None:
        """Creates W^Q, W^K, W^V [d_model, heads·depth], W^O [heads·d_v, d_model], and biases."""
        memory_shape = memory_shape or query_shape
        self.query_projection.build(query_shape)
        self.key_projection.build(memory_shape)
        self.value_projection.build(memory_shape)
        self.output_projection = self._new_projection(query_shape[-1], "output", "glorot")
        self.output_projection.build((*query_shape[:-1], self.num_heads * self.d_v))
        self.built = True

    def project_memory(self, memory: Vectors) -> KeysValues:
        """Computes K W^K and V W^V of a memory [batch, key_length, d_model]."""
        return KeysValues(*self._project(memory, self.key_projection, self.value_projection))

    def joint_projection(self) -> Projection:
        """Joins W^Q, W^K and W^V, head by head: a projection to heads·(2·d_k + d_v)."""
        return self._join((self.query_projection, self.key_projection, self.value_projection))

    def memory_projection(self) -> Projection:
        """Joins W^K and W^V, head by head: a projection to heads·(d_k + d_v)."""
        return self._join((self.key_projection, self.value_projection))

    def _join(self, layers: Sequence[Dense]) -> Projection:
        """Joins projections: the units of one head, those of all layers, become neighbours."""
        matrix = self._interleave([tf.convert_to_tensor(layer.kernel) for layer in layers])
        if not self.use_bias:
            return Projection(matrix, None)
        # A bias is joined as a matrix of one row.
        biases = self._interleave([tf.convert_to_tensor(layer.bias)[None] for layer in layers])
        return Projection(matrix, tf.cast(biases[0], matrix.dtype))

    def _interleave(self, matrices: list[tf.Tensor]) -> tf.Tensor:
        """Joins matrices [rows, heads·depth] head by head: [rows, heads·(sum of depths)].

        With two heads the columns of K and V become K_1 V_1 K_2 V_2.
        """
        rows = matrices[0].shape[0]
        by_head = [tf.reshape(matrix, [rows, self.num_heads, -1]) for matrix in matrices]
        return tf.reshape(tf.concat(by_head, axis=2), [rows, -1])

    def _project(self, x: Vectors, *layers: Dense) -> list[tf.Tensor]:
        """Projects x by each layer: [batch, heads, length, depth] for each, in their order."""
        if len(layers) == 1 or not gpu.has_gpu():
            # One product with joined matrices is slower on a CPU, which must copy them.
            return [split_heads(map_positions(layer, x), self.num_heads) for layer in layers]
        # On a GPU it is faster: matrices are cast in any case, and fewer kernels start.
        heads = split_heads(map_positions(self._join(layers).of, x), self.num_heads)
        return tf.split(heads, [layer.units // self.num_heads for layer in layers], axis=-1)

    def call(
        self,
        query: Vectors,
        memory: Vectors | KeysValues | None = None,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        past: Past | None = None,
    ) -> Vectors:
        """Attends from `query` to `memory`, or to `query` itself without a memory.

        Args:
            query: [batch, query_length, d_model].
            memory: [batch, key_length, d_model], or its keys and values; None for self-attention.
            attention_mask: boolean, broadcastable to [batch, query_length, key_length]; `True` =
                may attend; None for all. Keras's implicit mask of the memory applies too.
            training: whether dropout is active.
            past: the earlier positions in step-by-step decoding, used in the place of `memory` and
                `attention_mask`; this step is written to it. `query_length` is then `beam`.

        Returns:
            [batch, query_length, d_model].
        """
        if past is not None:
            heads = self._attend_to_past(query, past, training)
        elif memory is None:
            attention_mask = with_implicit_mask(attention_mask, query)
            queries, keys, values = self._project(
                query, self.query_projection, self.key_projection, self.value_projection
            )
            heads = self._attend(queries, KeysValues(keys, values), attention_mask, training)
        else:
            (queries,) = self._project(query, self.query_projection)
            if not isinstance(memory, KeysValues):
                attention_mask = with_implicit_mask(attention_mask, memory)
                memory = self.project_memory(memory)
            heads = self._attend(queries, memory, attention_mask, training)
        return map_positions(self.output_projection, join_heads(heads, query))

    def _attend_to_past(self, query: tf.Tensor, past: Past, training: bool | None) -> tf.Tensor:
        """Attends from this step to the earlier ones and itself: [batch, heads, beam, d_v].

        The keys and values of this step are written to the past.
        """
        # For few vectors one product and a copy of its parts are faster than three products. The
        # units of each head are neighbours (`joint_projection`), so heads are split first.
        projected = split_heads(past.projection.of(query), self.num_heads)
        queries, keys, values = tf.split(projected, [self.d_k, self.d_k, self.d_v], axis=-1)
        keys_values = past.extend(KeysValues(keys, values))
        # Not `_attend`: the mask of the past includes a neighbourhood.
        return self.scaled_dot_product_attention(queries, keys_values, past.mask, training)

    def scaled_dot_product_attention(
        self,
        queries: tf.Tensor,
        keys_values: KeysValues,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Computes Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (paper, equation 1).

        Dropout is applied to the weights.

        Args:
            queries: [batch, heads, query_length, d_k].
            keys_values: [batch, heads, key_length, d_k] and [batch, heads, key_length, d_v].
            attention_mask: as in `call`.
            training: as in `call`.

        Returns:
            [batch, heads, query_length, d_v].
        """
        keys, values = keys_values
        weights = attention_weights(queries, keys, attention_mask)
        if self.recorder:
            self.recorder(weights)
        return tf.matmul(self.weights_dropout(weights, training=training), values)

    # How every head attends without a past; restricted attention overrides it.
    _attend = scaled_dot_product_attention


def projected_memory(attentions: Sequence[MultiHeadAttention], memory: Vectors) -> list[KeysValues]:
    """Projects a memory [batch, key_length, d_model] for several attentions.

    They have the same d_k and d_v, and all have biases or none.

    Returns:
        the keys and values of each attention, in their order.
    """
    if not gpu.has_gpu():
        return [attention.project_memory(memory) for attention in attentions]
    # One product for all, as in `_project`. Its units are those of the first attention, then of the
    # next; within an attention head by head, and of each head first the keys, then the values.
    joined = side_by_side([attention.memory_projection() for attention in attentions])
    num_heads = [attention.num_heads for attention in attentions]
    heads = split_heads(map_positions(joined.of, memory), sum(num_heads))
    depths = [attentions[0].d_k, attentions[0].d_v]
    heads_of_each = tf.split(heads, num_heads, axis=1)
    return [KeysValues(*tf.split(own_heads, depths, axis=-1)) for own_heads in heads_of_each]


@contextmanager
def recorded_by(layer: MultiHeadAttention | Dense) -> Iterator[list[tf.Tensor]]:
    """Records the weights of an attention, or the inputs of a `Dense` layer, within the context.

    A layer has one recorder: two contexts of the same layer must not overlap.

    Yields:
        a list that gets [batch, heads, query_length, key_length], or the inputs, at every call.
    """
    recorded: list[tf.Tensor] = []
    layer.recorder = recorded.append
    try:
        yield recorded
    finally:
        layer.recorder = None
