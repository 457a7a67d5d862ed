"""Attention to a neighbourhood in time and memory O(r · n · d).

Replaces attention to all positions under a mask. There is no [n, n] table of scores: queries are
split into blocks, and each block is scored against one range of keys: its own positions, and as
many before and after them as its outermost queries can see.
"""

from collections.abc import Callable

import tensorflow as tf

_SMALLEST_BLOCK = 32
"""Products of smaller blocks take as long on a CPU."""

Attend = Callable[[tf.Tensor, tuple[tf.Tensor, tf.Tensor], tf.Tensor], tf.Tensor]


def keys_of_query(window: tuple[int, int], length: float) -> float:
    """Returns the number of keys that each query is scored against, masked ones included.

    For sequences of one block, or none, it is their length.
    """
    size = _block_size(window)
    return length if length <= size else size + sum(window)


def _block_size(window: tuple[int, int]) -> int:
    """Returns the number of queries in a block; its range of keys is at most twice as wide."""
    return max(sum(window), _SMALLEST_BLOCK)


def blocked_attention(
    attend: Attend,
    queries: tf.Tensor,
    keys_values: tuple[tf.Tensor, tf.Tensor],
    may_be_seen: tf.Tensor | None,
    window: tuple[int, int],
) -> tf.Tensor:
    """Attends from every position to those in its window, block by block.

    Args:
        attend: (queries, (keys, values), mask) -> context; all are [batch, heads, ...] but the
            mask, boolean [batch, query_length, key_length].
        queries: [batch, heads, length, d_k].
        keys_values: [batch, heads, length, d_k] and [batch, heads, length, d_v].
        may_be_seen: boolean [batch, 1, length], or None for all; a position always sees itself.
        window: how many positions a query sees before its own, and how many after.

    Returns:
        the context, [batch, heads, length, d_v].
    """
    batch, heads, length, _ = tf.unstack(tf.shape(queries))
    blocks = _Blocks(batch * heads, length, window)

    def as_rows(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [-1, length, x.shape[-1]])

    if may_be_seen is not None:
        may_be_seen = tf.repeat(tf.broadcast_to(may_be_seen, [batch, 1, length]), heads, axis=0)
    # `attend` expects an axis of heads; here the heads are among the rows.
    query_blocks = blocks.queries(as_rows(queries))[:, None]
    keys, values = (blocks.keys(as_rows(x))[:, None] for x in keys_values)
    context_blocks = attend(query_blocks, (keys, values), blocks.mask(may_be_seen))
    context = blocks.join(context_blocks[:, 0])
    # The static number of heads, so that it is known in the result's shape.
    return tf.reshape(context, [batch, queries.shape[1], length, values.shape[-1]])


class _Blocks:
    """Sequences [rows, length] split into blocks, which take the place of the rows.

    The axes are [rows·blocks, block, ...] of queries and [rows·blocks, range, ...] of keys.
    """

    def __init__(self, rows: tf.Tensor, length: tf.Tensor, window: tuple[int, int]) -> None:
        self._rows, self._length, self._window = rows, length, window
        # Not longer than the sequence, nor 0 if that is empty.
        self._size = tf.clip_by_value(_block_size(window), 1, tf.maximum(self._length, 1))
        self._count = -(-self._length // self._size)
        # A block that holds the whole sequence has no neighbours.
        self._before, self._after = (tf.where(self._count > 1, side, 0) for side in window)

    def queries(self, x: tf.Tensor) -> tf.Tensor:
        """Splits queries: [rows, length, width] → [rows·blocks, block, width]."""
        return tf.reshape(self._padded(x, 0), [-1, self._size, x.shape[-1]])

    def keys(self, x: tf.Tensor) -> tf.Tensor:
        """Splits keys: [rows, length, width] → [rows·blocks, range, width], zeros at the ends."""
        width = x.shape[-1]
        # One more block on each side: the neighbours of the first and the last.
        blocks = tf.reshape(self._padded(x, 1), [self._rows, -1, self._size, width])
        end_of_previous = blocks[:, :-2, self._size - self._before :]
        own = blocks[:, 1:-1]
        begin_of_next = blocks[:, 2:, : self._after]
        ranges = tf.concat([end_of_previous, own, begin_of_next], axis=2)
        return tf.reshape(ranges, [-1, self._before + self._size + self._after, width])

    def mask(self, may_be_seen: tf.Tensor | None) -> tf.Tensor:
        """Allows each query to see itself, and the keys in its window that may be seen.

        Args:
            may_be_seen: boolean [rows, 1, length], the keys of each row; None for all.

        Returns:
            boolean [rows·blocks, block, range], for the keys that `keys` returns.
        """
        if may_be_seen is None:
            may_be_seen = tf.ones([1, 1, self._length], tf.bool)
        # `keys` lays them out like the keys, of width 1: those beyond the ends are False.
        column = tf.broadcast_to(may_be_seen[:, 0, :, None], [self._rows, self._length, 1])
        seen = tf.transpose(self.keys(column), (0, 2, 1))  # [rows·blocks, 1, range]
        # Positions of keys and queries, counted from the block's first query.
        positions = tf.range(-self._before, self._size + self._after)
        distance = positions - tf.range(self._size)[:, None]
        before, after = self._window
        is_near = (distance >= -before) & (distance <= after)
        return is_near & (seen | (distance == 0))

    def join(self, blocks: tf.Tensor) -> tf.Tensor:
        """Joins blocks, without padding: [rows·blocks, block, width] → [rows, length, width]."""
        return tf.reshape(blocks, [self._rows, -1, blocks.shape[-1]])[:, : self._length]

    def _padded(self, x: tf.Tensor, blocks_around: int) -> tf.Tensor:
        """Fills the last block of x [rows, length, width], and adds blocks around, with zeros."""
        around = blocks_around * self._size
        missing = self._count * self._size - self._length
        return tf.pad(x, [[0, 0], [around, missing + around], [0, 0]])
