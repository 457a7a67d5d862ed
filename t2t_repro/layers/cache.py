"""Keys and values of the positions decoded so far: room that is filled.

A cache is [batch, heads, entries, depth]. The hypotheses of a beam write `beam` entries a step, and
these stay where they are: when hypotheses are re-ordered, only the record of who stems from whom
changes (`ancestors`), and a mask shows to each the entries of its own line. So nothing that was
decoded is moved; copying the cache into the new order, as other toolkits do, costs several times
what a step's attention reads.
"""

from typing import NamedTuple

import tensorflow as tf

from t2t_repro import kernels
from t2t_repro.kernels import cache_in_place
from t2t_repro.layers.masks import reach_of


class KeysValues(NamedTuple):
    """What attention reads, projected already.

    Attributes:
        keys: [batch, heads, entries, d_k].
        values: [batch, heads, entries, d_v].
    """

    keys: tf.Tensor
    values: tf.Tensor


class Past:
    """The earlier positions of one decoder layer, and where those of this step are written.

    Args:
        keys_values: with room for this step; they are used up.
        entry: scalar, the entry that the first hypothesis of a beam writes.
        mask: boolean [batch, beam, entries], what a hypothesis may attend to.

    Attributes:
        keys_values: those of this step among them once attention has called `extend`.
        mask: see above.
    """

    def __init__(self, keys_values: KeysValues, entry: tf.Tensor, mask: tf.Tensor) -> None:
        self.keys_values = keys_values
        self.mask = mask
        self._entry = entry

    def extend(self, newest: KeysValues) -> KeysValues:
        """Writes keys and values [batch, heads, beam, depth] of this step behind the earlier."""
        pairs = zip(self.keys_values, newest, strict=True)
        self.keys_values = KeysValues(*(write(old, new, self._entry) for old, new in pairs))
        return self.keys_values


def write_rows(rows: tf.Tensor, places: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Writes `new` [new, depth] at `places` [new] among `rows` [rows, depth]."""
    return tf.tensor_scatter_nd_update(rows, places[:, None], new)


_write_rows = kernels.fast(cache_in_place.write_rows, write_rows)
_room = kernels.fast(cache_in_place.room, tf.zeros)


def empty(batch: int | tf.Tensor, heads: int, depth: int, dtype: str) -> tf.Tensor:
    """A cache without entries: [batch, heads, 0, depth]."""
    return tf.zeros([batch, heads, 0, depth], dtype)


def with_room(cache: tf.Tensor, entries: int) -> tf.Tensor:
    """Adds entries, zeros, behind those of a cache; they are copied to a new one."""
    batch, heads, _, depth = tf.unstack(tf.shape(cache))
    return tf.concat([cache, _room([batch, heads, entries, depth], cache.dtype)], axis=2)


def write(cache: tf.Tensor, new: tf.Tensor, entry: tf.Tensor) -> tf.Tensor:
    """Overwrites entries of a cache; the tensor given is used up.

    Args:
        cache: [batch, heads, entries, depth].
        new: [batch, heads, beam, depth].
        entry: scalar, the first of the entries to write.

    Returns:
        the cache.
    """
    depth = new.shape[-1]
    batch, heads, entries, _ = tf.unstack(tf.shape(cache))
    first = tf.range(batch * heads)[:, None] * entries + entry
    places = tf.reshape(first + tf.range(tf.shape(new)[2]), [-1])
    rows, new = (tf.reshape(x, [-1, depth]) for x in (cache, new))
    written = _write_rows(rows, places, new)
    return tf.ensure_shape(tf.reshape(written, tf.shape(cache)), cache.shape)


def descend(ancestors: tf.Tensor, parents: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Records the parents of new hypotheses, and that each writes the next entry itself.

    Args:
        ancestors: [batch, beam, positions] int32, which of the beam's entries at a position
            belongs to the line of a hypothesis.
        parents: [batch, beam], which old hypothesis each new one extends.
        position: scalar, the one to be written.

    Returns:
        the ancestors of the new hypotheses.
    """
    _, beam, positions = tf.unstack(tf.shape(ancestors))
    inherited = tf.gather(ancestors, parents, batch_dims=1)
    return tf.where(tf.range(positions) == position, tf.range(beam)[:, None], inherited)


def line_mask(ancestors: tf.Tensor, position: tf.Tensor, neighbourhood: int | None) -> tf.Tensor:
    """Allows a hypothesis to attend to its own line, up to `position`.

    Args:
        ancestors: [batch, beam, positions].
        position: scalar, the newest.
        neighbourhood: r of restricted self-attention, or None.

    Returns:
        boolean [batch, beam, positions·beam].
    """
    batch, beam, positions = tf.unstack(tf.shape(ancestors))
    distance = position - tf.range(positions)
    is_near = distance >= 0
    if neighbourhood is not None:
        is_near &= distance <= reach_of(neighbourhood, is_causal=True).before
    is_own = ancestors[..., None] == tf.range(beam)
    return tf.reshape(is_own & is_near[:, None], [batch, beam, positions * beam])
