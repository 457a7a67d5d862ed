import numpy as np
import tensorflow as tf

from t2t_repro.decoding.random_numbers import exponentials, hashed, keys_of


def test_a_hash_is_splitmix64():
    """The first numbers of the reference implementation, begun with 0."""
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    found = hashed(tf.constant(0, tf.int64), tf.range(3)).numpy().view(np.uint64)
    assert found.tolist() == first


def test_exponentials_have_their_distribution():
    states = hashed(tf.range(100, dtype=tf.int64), 7)
    drawn = np.sort(exponentials(states[:, None], tf.range(1000)).numpy().ravel())
    assert drawn.dtype == np.float32
    assert drawn[0] > 0
    # Kolmogorov's distance from 1 - exp(-x); 1.95 / sqrt(n) is exceeded once in a thousand times.
    distance = np.abs(-np.expm1(-drawn) - (np.arange(len(drawn)) + 0.5) / len(drawn)).max()
    assert distance < 1.95 / len(drawn) ** 0.5


def test_a_key_is_the_sentence_s_own():
    sentences = [[5, 6, 1], [6, 5, 1], [5, 6, 6, 1], [5, 1], [1], [2**31 - 1, 1]]
    keys = []
    for width in (4, 9):
        padded = np.zeros([len(sentences), width], np.int32)
        for row, ids in zip(padded, sentences, strict=True):
            row[: len(ids)] = ids
        keys.append(keys_of(tf.constant(padded)).numpy().tolist())
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == len(sentences)
