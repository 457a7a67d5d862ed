import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.model import cache
from t2t_repro.model.kernels import cache_in_place


@settings(max_examples=30)
@given(rows=st.integers(1, 6), depth=st.integers(1, 3), data=st.data())
def test_rows_are_written_as_a_copy_would_have_them(rows, depth, data):
    places = data.draw(st.lists(st.integers(0, rows - 1), unique=True))
    before = np.arange(rows * depth, dtype=np.float32).reshape(rows, depth)
    new = -np.ones((len(places), depth), np.float32)
    arguments = tf.constant(places, tf.int32), tf.constant(new)
    copied = cache.write_rows(tf.constant(before), *arguments)
    room = cache_in_place.room([rows, depth], tf.float32)
    assert not room.numpy().any()
    in_place = cache_in_place.write_rows(room + before, *arguments)
    np.testing.assert_array_equal(in_place, copied)
    before[places] = -1
    np.testing.assert_array_equal(copied, before)
