import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.kernels.philox import halves, joined, philox

PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]


# The known answers that come with Random123, the authors' own program.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (*PI, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ],
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_known_answers(counter, key, expected, jit_compile):
    counter, key = (tf.unstack(tf.constant(words, tf.uint32)) for words in (counter, key))
    words = tf.function(philox, jit_compile=jit_compile)(counter, key)
    np.testing.assert_array_equal(tf.stack(words), np.array(expected, np.uint32))


@pytest.mark.parametrize("bits", [0, 1, 2**32, 2**63 + 5, 2**64 - 1])
def test_halves(bits):
    low, high = halves(tf.constant(bits, tf.uint64))
    assert (int(low), int(high)) == (bits % 2**32, bits // 2**32)
    assert [int(number) for number in joined([low, high])] == [bits]
