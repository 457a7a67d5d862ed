"""The counted operations against those of the products that a Transformer of ours really does."""

import numpy as np
import pytest

from operations import decoder, decoding_operations, encoder, training_operations
from work import Batch, ModelSize

SIZE = ModelSize(vocab_size=50, num_layers=2, d_model=8, d_ff=12, num_heads=2, dropout=0.1)


def product(n, k, m):
    return 2 * n * k * m


def attention(queries, keys):
    d, heads = SIZE.d_model, SIZE.num_heads
    projections = 2 * product(queries, d, d) + 2 * product(keys, d, d)
    return projections + 2 * heads * product(queries, d // heads, keys)


def feed_forward(length):
    return 2 * product(length, SIZE.d_model, SIZE.d_ff)


def test_encoder_counts_every_product():
    assert encoder(SIZE, 7) == SIZE.num_layers * (attention(7, 7) + feed_forward(7))


def test_decoder_counts_self_attention_to_earlier_positions_alone():
    length, source_length, d = 5, 7, SIZE.d_model
    masked = sum(2 * product(1, d, length - position) for position in range(1, length + 1))
    layer = attention(length, length) - masked
    layer += attention(length, source_length) + feed_forward(length)
    expected = SIZE.num_layers * layer + product(length, d, SIZE.vocab_size)
    assert decoder(SIZE, source_length, length) == expected


def test_training_counts_real_tokens_three_times():
    source = np.array([[5, 6, 1, 0], [5, 1, 0, 0]], np.int32)
    target = np.array([[7, 1, 0], [7, 8, 1]], np.int32)
    expected = 3 * (encoder(SIZE, 3) + decoder(SIZE, 3, 2) + encoder(SIZE, 2) + decoder(SIZE, 2, 3))
    assert training_operations(SIZE, Batch(source, target)) == expected


@pytest.mark.parametrize("beam", [1, 4])
def test_decoding_costs_the_decoder_once_a_hypothesis_and_the_source_once(beam):
    source_length, tokens = 7, 5
    keys = SIZE.num_layers * 2 * product(source_length, SIZE.d_model, SIZE.d_model)
    once = encoder(SIZE, source_length) + keys
    each = decoder(SIZE, source_length, tokens) - keys
    assert decoding_operations(SIZE, source_length, beam, tokens) == once + beam * each
