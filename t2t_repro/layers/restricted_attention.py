"""Self-attention restricted to a neighbourhood (paper, section 4), in time and memory O(r · n · d).

The paper's "neighborhood of size r in the input sequence centered around the respective output
position" is taken as the position itself with r // 2 others on either side: r
positions for an odd r, r + 1 for an even one, since what is centred has a middle. In a decoder,
which must not see what comes, those before it are left.

No table of n × n scores is made. Queries are cut into blocks, and each block is scored against one
window of keys: those of its own positions, with as many before and after as its outermost queries
reach.
"""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_repro.layers.attention import MultiHeadAttention
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.layout import PADDED, Layout
from t2t_repro.layers.shapes import check_last_axis

_SMALLEST_BLOCK = 32
"""Products of smaller blocks take as long on a CPU: a smaller neighbourhood is no cheaper."""


class Reach(NamedTuple):
    """How far a position sees.

    Attributes:
        before: positions before its own.
        after: positions after its own.
    """

    before: int
    after: int

    @property
    def block(self) -> int:
        """Queries of a block; a window is no more than twice as wide."""
        return max(sum(self), _SMALLEST_BLOCK)

    def keys_of_query(self, length: float) -> float:
        """How many keys each query is scored against, those that a mask then hides included.

        Args:
            length: of the sentence.
        """
        return length if length <= self.block else self.block + sum(self)

    def mask(self, distance: tf.Tensor, may_be_seen: tf.Tensor) -> tf.Tensor:
        """Which keys a query sees: those within reach that may be seen, and itself always.

        Args:
            distance: [(1,) query_length, key_length], how far the key stands behind the query.
            may_be_seen: boolean, broadcastable to [batch, query_length, key_length].

        Returns:
            [batch, query_length, key_length], boolean.
        """
        is_near = (distance >= -self.before) & (distance <= self.after)
        return is_near & (may_be_seen | (distance == 0))


def reach_of(neighbourhood: int, is_causal: bool = False) -> Reach:
    """Says how far a position sees in a neighbourhood of size r.

    Args:
        neighbourhood: r.
        is_causal: whether what comes is hidden.

    Raises:
        ValueError: if r is below 1.
    """
    if neighbourhood < 1:
        raise ValueError(
            f"neighbourhood is {neighbourhood}, expected at least 1, the position itself: "
            "leave it out, or give None, for attention to all positions."
        )
    return Reach(neighbourhood // 2, 0 if is_causal else neighbourhood // 2)


@keras.saving.register_keras_serializable(package="t2t_repro")
class RestrictedSelfAttention(MultiHeadAttention):
    """Multi-head self-attention to nearby positions; the weights are `MultiHeadAttention`'s.

    Args:
        num_heads: h, the number of heads.
        d_k: depth of a head's queries and keys.
        d_v: depth of a head's values.
        neighbourhood: r.
        is_causal: whether what comes is hidden.
        dropout: rate of dropout on the attention weights.
    """

    def __init__(
        self,
        num_heads: int,
        d_k: int,
        d_v: int,
        neighbourhood: int,
        is_causal: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, d_k, d_v, dropout, **kwargs)
        self.neighbourhood = neighbourhood
        self.is_causal = is_causal
        self._reach = reach_of(neighbourhood, is_causal)

    # There is no other memory than the input itself.
    def build(self, x_shape: tuple) -> None:  # type: ignore[override]
        """Creates the weights for inputs [batch, length, d_model]."""
        super().build(x_shape)

    def call(  # type: ignore[override]
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        training: bool | None = None,
        layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Attends from every position to those within reach.

        A position always sees itself, also where the mask hides it: those of padding have nothing
        else to see.

        Args:
            x: [batch, length, d_model].
            attention_mask: boolean [batch, 1, length], `True` = may be seen; None for all.
            training: whether dropout is active.
            layout: of `x` and of the result.

        Returns:
            [batch, length, d_model].

        Raises:
            ValueError: if the width of `x` is not the one the layer was built for, or the mask is
                not the same for all queries.
        """
        if attention_mask is not None and attention_mask.shape[1] not in (1, None):
            raise ValueError(
                f"attention_mask has the shape {tuple(attention_mask.shape)}, expected "
                "[batch, 1, length]: what a query sees besides follows from the reach."
            )
        check_last_axis("x", x, self.query_projection.kernel.shape[0])
        queries, keys, values = (
            layout.pad(projection(x))
            for projection in (self.query_projection, self.key_projection, self.value_projection)
        )
        blocks = _Blocks(tf.shape(queries), self._reach)
        context = self.context(
            PADDED.split_heads(blocks.queries(queries), self.num_heads),
            PADDED.split_heads(blocks.keys(keys), self.num_heads),
            PADDED.split_heads(blocks.keys(values), self.num_heads),
            blocks.mask(attention_mask),
            training,
        )
        context = blocks.join(PADDED.join_heads(context))
        return self.output_projection(layout.arrange(context))

    def attention_weights(  # type: ignore[override]
        self, x: tf.Tensor, attention_mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        """What `call` weighs the values with, for the same arguments, zeros beyond the reach.

        For a reader: here a table of all pairs is made.

        Returns:
            [batch, heads, length, length]; every row sums to 1.
        """
        places = tf.range(tf.shape(x)[1])
        may_be_seen = tf.constant(True) if attention_mask is None else attention_mask
        mask = self._reach.mask((places - places[:, None])[None], may_be_seen)
        return super().attention_weights(x, attention_mask=mask)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "neighbourhood": self.neighbourhood,
            "is_causal": self.is_causal,
        }


def self_attention(
    config: LayerConfig, neighbourhood: int | None, is_causal: bool = False, **kwargs: Any
) -> MultiHeadAttention:
    """Makes a layer's self-attention, restricted where there is a neighbourhood.

    Args:
        config: sizes and rates.
        neighbourhood: r, or None for all positions.
        is_causal: whether a neighbourhood hides what comes; without one a mask has to.
        kwargs: of the Keras layer: name, dtype.
    """
    sizes = (config.num_heads, config.key_depth, config.value_depth)
    kwargs["dropout"] = config.attention_dropout
    if neighbourhood is None:
        return MultiHeadAttention(*sizes, **kwargs)
    return RestrictedSelfAttention(*sizes, neighbourhood, is_causal, **kwargs)


class _Blocks:
    """A batch of sequences cut into blocks, which take the place of the batch's rows.

    The axes are [batch·blocks, block, ...] of queries and [batch·blocks, window, ...] of keys.

    Args:
        shape: of the sequences, [batch, length, ...].
        reach: how far a position sees.
    """

    def __init__(self, shape: tf.Tensor, reach: Reach) -> None:
        self._batch, self._length = shape[0], shape[1]
        self._reach = reach
        self._block = tf.clip_by_value(reach.block, 1, tf.maximum(self._length, 1))
        self._count = -(-self._length // self._block)
        # A block that holds the whole sequence has no neighbours.
        self._before, self._after = (tf.where(self._count > 1, side, 0) for side in reach)

    def queries(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → [batch·blocks, block, width]."""
        return tf.reshape(self._filled(x, 0), [-1, self._block, x.shape[-1]])

    def keys(self, x: tf.Tensor) -> tf.Tensor:
        """[batch, length, width] → [batch·blocks, window, width], zeros beyond the ends."""
        width = x.shape[-1]
        blocks = tf.reshape(self._filled(x, 1), [self._batch, -1, self._block, width])
        windows = tf.concat(
            [
                blocks[:, :-2, self._block - self._before :],
                blocks[:, 1:-1],
                blocks[:, 2:, : self._after],
            ],
            axis=2,
        )
        return tf.reshape(windows, [-1, self._before + self._block + self._after, width])

    def mask(self, may_be_seen: tf.Tensor | None) -> tf.Tensor:
        """[batch, 1, length], boolean, or None → [batch·blocks, block, window]."""
        if may_be_seen is None:
            may_be_seen = tf.ones([1, 1, self._length], tf.bool)
        keys = tf.broadcast_to(may_be_seen[:, 0, :, None], [self._batch, self._length, 1])
        keys = tf.transpose(self.keys(keys), (0, 2, 1))
        window = tf.range(-self._before, self._block + self._after)
        distance = window - tf.range(self._block)[:, None]
        return self._reach.mask(distance, keys)

    def join(self, blocks: tf.Tensor) -> tf.Tensor:
        """[batch·blocks, block, width] → [batch, length, width]."""
        width = blocks.shape[-1]
        return tf.reshape(blocks, [self._batch, -1, width])[:, : self._length]

    def _filled(self, x: tf.Tensor, blocks_around: int) -> tf.Tensor:
        """Fills the last block up with zeros, and adds blocks of zeros on either side."""
        around = blocks_around * self._block
        missing = self._count * self._block - self._length
        return tf.pad(x, [[0, 0], [around, missing + around], [0, 0]])
