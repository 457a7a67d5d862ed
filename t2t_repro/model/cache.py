"""The decoding cache: preallocated keys and values of earlier positions.

A cache is [batch, heads, entries, depth]. Each step the hypotheses of a beam write `beam` entries,
which are never moved. When hypotheses are reordered, only the record of their `ancestors` changes,
and a mask shows each hypothesis the entries of its own line. Other toolkits copy the cache into the
new order, which costs several times the reads of a step's attention.
"""

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.dense import Projection
from t2t_repro.model.kernels import decoding as fast
from t2t_repro.model.masks import window_of


class KeysValues(NamedTuple):
    """The projected keys and values that attention reads.

    Attributes:
        keys: [batch, heads, entries, d_k].
        values: [batch, heads, entries, d_v].
    """

    keys: tf.Tensor
    values: tf.Tensor


@dataclass
class State:
    """The state of one recurrent decoder layer.

    Attributes:
        kept: [batch, beam, d_model] float32, the state of every hypothesis. The layer computes this
            step's state from it, and replaces it.
    """

    kept: tf.Tensor


@dataclass
class Past:
    """The earlier positions of one decoder layer, to which attention adds this step by `extend`.

    Attributes:
        kept: keys and values, with unwritten entries for this step. `extend` writes them in place:
            the tensors given here must not be used again.
        projection: to heads·(2·d_k + d_v), the layer's W^Q, W^K and W^V; see
            `MultiHeadAttention.joint_projection`.
        position: scalar, of this step.
        mask: boolean [batch, beam, entries], the entries that a hypothesis may attend to.
    """

    kept: KeysValues
    projection: Projection
    position: tf.Tensor
    mask: tf.Tensor

    def extend(self, newest: KeysValues) -> KeysValues:
        """Writes this step's keys and values [batch, heads, beam, depth] to `kept`; returns it."""
        _, heads, beam, _ = newest.keys.shape
        # Sizes come from the mask, which all layers share, so they are computed once per step.
        batch, _, entries = tf.unstack(tf.shape(self.mask))
        positions = entries // beam
        # Each head has a row for each position; these are the rows of this step, one per head.
        rows = tf.range(self.position, batch * heads * positions, positions)
        keys = write(self.kept.keys, newest.keys, rows, entries)
        values = write(self.kept.values, newest.values, rows, entries)
        self.kept = KeysValues(keys, values)
        return self.kept


def write_rows(rows: tf.Tensor, places: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Replaces the rows numbered `places` [new] of `rows` [rows, depth] by `new` [new, depth].

    The result is a copy. `kernels.decoding.write_rows`, which overwrites `rows`, runs in its place:
    an edit here has no effect, unless T2T_REPRO_PLAIN=1 or the line with `kernels.fast` is changed.
    """
    return tf.tensor_scatter_nd_update(rows, places[:, None], new)


NEVER_WRITTEN = -1
"""The value in `ancestors` of a position without entries yet."""

_write_rows = kernels.fast(fast.write_rows, write_rows)
_writable_zeros = kernels.fast(fast.writable_zeros, tf.zeros)


def with_room(cache: tf.Tensor, entries: int) -> tf.Tensor:
    """Appends `entries` entries of zeros to a copy of a cache [batch, heads, any, depth]."""
    batch, heads, _, depth = tf.unstack(tf.shape(cache))
    zeros = _writable_zeros([batch, heads, entries, depth], cache.dtype)
    return tf.concat([cache, zeros], axis=2)


def write(
    cache: tf.Tensor, new: tf.Tensor, places: tf.Tensor, entries: int | tf.Tensor
) -> tf.Tensor:
    """Overwrites the entries of one position; returns the cache.

    The kernel writes in place, so the given cache must not be used again.

    Args:
        cache: [batch, heads, entries, depth], as is the result.
        new: [batch, heads, beam, depth], all but batch statically known.
        places: [batch·heads], the position's rows in [batch·heads·positions].
        entries: number of entries of the cache, positions·beam.
    """
    _, heads, beam, depth = new.shape
    # The `beam` entries of a position are neighbours: together they are one row.
    rows = tf.reshape(cache, [-1, beam * depth])
    new = tf.reshape(new, [-1, beam * depth])
    return tf.reshape(_write_rows(rows, places, new), [-1, heads, entries, depth])


def descend(ancestors: tf.Tensor, parents: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Returns the ancestors of new hypotheses: those of their parents, and themselves.

    Args:
        ancestors: [batch, beam, positions] int32, as is the result: for each hypothesis, which of
            a position's `beam` entries is in its line; `NEVER_WRITTEN` where there is none yet.
        parents: [batch, beam], the old hypothesis that each new one extends.
        position: scalar, the position of the new hypotheses' own entries.
    """
    inherited = tf.gather(ancestors, parents, batch_dims=1)
    is_new = tf.range(tf.shape(ancestors)[2]) == position
    own_entry = tf.range(ancestors.shape[1])[:, None]  # [beam, 1]: hypothesis i writes entry i.
    return tf.where(is_new, own_entry, inherited)


def line_mask(ancestors: tf.Tensor, position: tf.Tensor, neighbourhood: int | None) -> tf.Tensor:
    """Allows a hypothesis to attend to the entries of its own line.

    Args:
        ancestors: [batch, beam, positions] int32, from `descend`.
        position: scalar, of this step.
        neighbourhood: r, to allow only this position and the r // 2 before it; None for all.

    Returns:
        boolean [batch, beam, positions·beam].
    """
    beam, positions = ancestors.shape[1], tf.shape(ancestors)[2]
    # `NEVER_WRITTEN` equals no entry.
    is_own = tf.expand_dims(ancestors, -1) == tf.range(beam)
    if neighbourhood is not None:
        distance = position - tf.range(positions)
        is_near = distance <= window_of(neighbourhood, is_causal=True).before
        is_own &= is_near[:, None]
    return tf.reshape(is_own, [-1, beam, positions * beam])
