"""Keys or values of the positions decoded so far: room that is filled in place.

A cache is [batch, heads, entries, depth]. The hypotheses of a beam write `beam` entries a step, and
these stay where they are: when hypotheses are re-ordered, only the record of who stems from whom
changes (`ancestors`), and a mask shows to each the entries of its own line. So a step costs what
its attention reads, however much has been decoded; copying the cache into the new order, as other
toolkits do, costs several times that.
"""

import tensorflow as tf

from t2t_repro.layers.restricted_attention import reach_of


def empty(batch: int | tf.Tensor, heads: int, depth: int, dtype: str) -> tf.Tensor:
    """A cache without entries: [batch, heads, 0, depth]."""
    return tf.zeros([batch, heads, 0, depth], dtype)


def with_room(cache: tf.Tensor, entries: int) -> tf.Tensor:
    """Adds entries, zeros, behind those of a cache; they are copied to a new one."""
    batch, heads, _, depth = tf.unstack(tf.shape(cache))
    # Not tf.zeros: the result is written to, and must not be a constant of the graph.
    room = tf.raw_ops.Empty(shape=[batch, heads, entries, depth], dtype=cache.dtype, init=True)
    return tf.concat([cache, room], axis=2)


def write(cache: tf.Tensor, new: tf.Tensor, entry: tf.Tensor) -> tf.Tensor:
    """Overwrites entries of a cache, in place: the tensor given is used up.

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
    rows = tf.reshape(first + tf.range(tf.shape(new)[2]), [-1])
    written = tf.raw_ops.InplaceUpdate(
        x=tf.reshape(cache, [-1, depth]), i=rows, v=tf.reshape(new, [-1, depth])
    )
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
