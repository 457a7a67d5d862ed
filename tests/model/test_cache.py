import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.model import cache

BATCH, HEADS, BEAM, DEPTH = 2, 3, 2, 4


def test_what_is_written_stands_behind_what_was_there():
    rng = np.random.default_rng(0)
    kept = tf.zeros([BATCH, HEADS, 0, DEPTH])
    expected = np.zeros((BATCH, HEADS, 0, DEPTH), np.float32)
    for step in range(5):
        if step in (0, 3):
            kept = cache.with_room(kept, 3 * BEAM)
        new = rng.normal(size=(BATCH, HEADS, BEAM, DEPTH)).astype(np.float32)
        positions = kept.shape[2] // BEAM
        places = tf.range(step, BATCH * HEADS * positions, positions)
        kept = cache.write(kept, tf.constant(new), places, kept.shape[2])
        expected = np.concatenate([expected, new], axis=2)
    np.testing.assert_array_equal(kept[:, :, : 5 * BEAM], expected)
    assert not kept[:, :, 5 * BEAM :].numpy().any()


def test_a_graph_can_be_called_twice():
    """Writing in place must not write into a constant of the graph."""

    @tf.function
    def fill(value):
        room = cache.with_room(tf.zeros([1, 1, 0, 1]), 3)
        return cache.write(room, tf.reshape(value, [1, 1, 1, 1]), tf.constant([1]), 3)[0, 0, :, 0]

    np.testing.assert_array_equal(fill(tf.constant(5.0)), [0, 5, 0])
    np.testing.assert_array_equal(fill(tf.constant(7.0)), [0, 7, 0])


@settings(max_examples=25)
@given(steps=st.integers(1, 6), beam=st.integers(1, 3), reach=st.integers(0, 5), data=st.data())
def test_a_hypothesis_sees_its_own_line(steps, beam, reach, data):
    """Against lists that are copied from parent to child."""
    ancestors = tf.fill([1, beam, steps], cache.NEVER_WRITTEN)
    lines: list[list[int]] = [[] for _ in range(beam)]
    for position in range(steps):
        parents = data.draw(st.lists(st.integers(0, beam - 1), min_size=beam, max_size=beam))
        ancestors = cache.descend(ancestors, tf.constant([parents]), tf.constant(position))
        # Entry position·beam + i is what hypothesis i writes at this position.
        lines = [lines[parent] + [position * beam + i] for i, parent in enumerate(parents)]
        mask = cache.line_mask(ancestors, tf.constant(position), 2 * reach or None)
        nearest = (position - reach) * beam if reach else 0
        for i, line in enumerate(lines):
            seen = np.flatnonzero(mask[0, i]).tolist()
            assert seen == [entry for entry in line if entry >= nearest]
