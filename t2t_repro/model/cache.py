"""Keys and values of the positions decoded so far: room that is filled.

A cache is [batch, heads, entries, depth]. The hypotheses of a beam write `beam` entries a step, and
these stay where they are: when hypotheses are re-ordered, only the record of who stems from whom
changes (`ancestors`), and a mask shows to each the entries of its own line. So nothing that was
decoded is moved; copying the cache into the new order, as other toolkits do, costs several times
what a step's attention reads.
"""

from typing import NamedTuple

import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.dense import Projection
from t2t_repro.model.kernels import cache_in_place
from t2t_repro.model.masks import reach_of


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
        projection: to heads·(2·d_k + d_v), the layer's W^Q, W^K and W^V; see
            `MultiHeadAttention.joint_projection`.
        position: scalar, of this step.
        mask: boolean [batch, beam, entries], what a hypothesis may attend to.

    Attributes:
        keys_values: those of this step among them once attention has called `extend`.
        projection: see above.
        mask: see above.
    """

    def __init__(
        self, keys_values: KeysValues, projection: Projection, position: tf.Tensor, mask: tf.Tensor
    ) -> None:
        self.keys_values = keys_values
        self.projection = projection
        self.mask = mask
        self._position = position

    def extend(self, newest: KeysValues) -> KeysValues:
        """Writes keys and values [batch, heads, beam, depth] of this step behind the earlier."""
        _, heads, beam, _ = newest.keys.shape
        # From the mask, which all layers share: TensorFlow then computes them once a step.
        batch, _, entries = tf.unstack(tf.shape(self.mask))
        places = places_of(self._position, batch * heads, entries // beam)
        pairs = zip(self.keys_values, newest, strict=True)
        self.keys_values = KeysValues(*(write(old, new, places, entries) for old, new in pairs))
        return self.keys_values


def write_rows(rows: tf.Tensor, places: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Writes `new` [new, depth] at `places` [new] among `rows` [rows, depth]."""
    return tf.tensor_scatter_nd_update(rows, places[:, None], new)


NEVER_WRITTEN = -1
"""In `ancestors`: no entry at that position."""

_write_rows = kernels.fast(cache_in_place.write_rows, write_rows)
_room = kernels.fast(cache_in_place.room, tf.zeros)


def empty(batch: int | tf.Tensor, heads: int, depth: int, dtype: str) -> tf.Tensor:
    """A cache without entries: [batch, heads, 0, depth]."""
    return tf.zeros([batch, heads, 0, depth], dtype)


def with_room(cache: tf.Tensor, entries: int) -> tf.Tensor:
    """Adds entries, zeros, behind those of a cache; they are copied to a new one."""
    batch, heads, _, depth = tf.unstack(tf.shape(cache))
    return tf.concat([cache, _room([batch, heads, entries, depth], cache.dtype)], axis=2)


def places_of(position: tf.Tensor, sequences: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Where `write` writes a position of [sequences, positions, ...]: [sequences]."""
    return tf.range(position, sequences * positions, positions)


def write(
    cache: tf.Tensor, new: tf.Tensor, places: tf.Tensor, entries: int | tf.Tensor
) -> tf.Tensor:
    """Overwrites the entries of a position; the tensor given is used up.

    Args:
        cache: [batch, heads, entries, depth].
        new: [batch, heads, beam, depth], all but batch statically known.
        places: [batch·heads], from `places_of`.
        entries: of the cache, positions·beam.

    Returns:
        the cache.
    """
    _, heads, beam, depth = new.shape
    rows, new = (tf.reshape(x, [-1, beam * depth]) for x in (cache, new))
    return tf.reshape(_write_rows(rows, places, new), [-1, heads, entries, depth])


def descend(ancestors: tf.Tensor, parents: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Records the parents of new hypotheses, and that each writes the next entry itself.

    Args:
        ancestors: [batch, beam, positions] int32, which of the beam's entries at a position
            belongs to the line of a hypothesis; `NEVER_WRITTEN` where there is none yet.
        parents: [batch, beam], which old hypothesis each new one extends.
        position: scalar, the one to be written.

    Returns:
        the ancestors of the new hypotheses.
    """
    beam = ancestors.shape[1]
    inherited = tf.gather(ancestors, parents, batch_dims=1)
    is_here = tf.range(tf.shape(ancestors)[2]) == position
    return tf.where(is_here, tf.range(beam)[:, None], inherited)


def line_mask(ancestors: tf.Tensor, position: tf.Tensor, neighbourhood: int | None) -> tf.Tensor:
    """Allows a hypothesis to attend to its own line, as far as it is written.

    Args:
        ancestors: [batch, beam, positions], from `descend`.
        position: scalar, the newest.
        neighbourhood: r of restricted self-attention, or None.

    Returns:
        boolean [batch, beam, positions·beam].
    """
    beam, positions = ancestors.shape[1], tf.shape(ancestors)[2]
    is_own = ancestors[..., None] == tf.range(beam)
    if neighbourhood is not None:
        distance = position - tf.range(positions)
        is_near = distance <= reach_of(neighbourhood, is_causal=True).before
        is_own &= is_near[:, None]
    return tf.reshape(is_own, [-1, beam, positions * beam])
