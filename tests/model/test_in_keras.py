"""The layers in a functional model of Keras's, whose masks are attached to tensors."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.decoder import Decoder, DecoderLayer
from t2t_repro.model.encoder import Encoder, EncoderLayer
from t2t_repro.model.positional_encoding import PositionalEncoding
from t2t_repro.model.restricted_attention import RestrictedSelfAttention
from tests.layer_test import randomize

WIDTH, VOCAB = 8, 11
SIZES: dict[str, Any] = {"d_model": WIDTH, "d_ff": 12, "num_heads": 2, "dropout": 0.0}
PRE = {**SIZES, "normalization": "pre"}
IDS = np.array([[5, 3, 9, 2, 4, 1], [7, 7, 1, 0, 0, 0]])
MEMORY_IDS = np.array([[6, 1, 0, 0], [8, 2, 10, 1]])
MASK, MEMORY_MASK = tf.constant(IDS != 0), tf.constant(MEMORY_IDS != 0)

OF_ITSELF: dict[str, Callable[[], Any]] = {
    "attention": lambda: MultiHeadAttention(2, 3, 5),
    "restricted attention": lambda: RestrictedSelfAttention(2, 3, 5, neighbourhood=3),
    "encoder layer": lambda: EncoderLayer(SIZES),
    "RMS-norm encoder": lambda: Encoder(2, {**PRE, "norm": "RMSNormalization"}),
    "restricted encoder": lambda: Encoder(2, SIZES, neighbourhood=3),
}
OF_A_MEMORY: dict[str, Callable[[], Any]] = {
    "attention": lambda: MultiHeadAttention(2, 3, 5),
    "restricted decoder layer": lambda: DecoderLayer(SIZES, neighbourhood=3),
    "pre-norm decoder": lambda: Decoder(2, PRE),
    "restricted decoder": lambda: Decoder(2, SIZES, neighbourhood=3),
}


def vectors_of(name):
    """Ids, and their vectors, of which Keras knows which are padding."""
    ids = keras.Input((None,), dtype="int32", name=name)
    embedding = keras.layers.Embedding(VOCAB, WIDTH, mask_zero=True, name=f"{name}_embedding")
    return ids, PositionalEncoding(name=f"{name}_positions")(embedding(ids))


@pytest.mark.parametrize("kind", OF_ITSELF)
def test_keras_mask_is_the_explicit_mask(kind, recwarn):
    ids, x = vectors_of("ids")
    layer = OF_ITSELF[kind]()
    y = layer(x)
    assert y.shape == (None, None, WIDTH)
    model = keras.Model(ids, [x, y])
    randomize(model)
    vectors, output = (np.asarray(one) for one in model(IDS))
    explicit = layer(vectors, attention_mask=MASK[:, None])
    np.testing.assert_allclose(output, explicit, atol=1e-5)
    # It hides something, and without any mask nothing is hidden.
    everything = layer(vectors, attention_mask=tf.ones_like(MASK)[:, None])
    assert np.abs(everything - output)[1].max() > 1e-3
    np.testing.assert_array_equal(layer(vectors), everything)
    assert not [one for one in recwarn if "mask" in str(one.message)]


@pytest.mark.parametrize("kind", OF_A_MEMORY)
def test_keras_mask_of_a_memory_is_the_explicit_mask(kind):
    (ids, x), (memory_ids, memory) = vectors_of("ids"), vectors_of("memory")
    layer = OF_A_MEMORY[kind]()
    y = layer(x, memory)
    assert y.shape == (None, None, WIDTH)
    model = keras.Model([ids, memory_ids], [x, memory, y])
    randomize(model)
    pair = (IDS, MEMORY_IDS)
    x, memory, output = (np.asarray(one) for one in model(pair))
    mask = {"attention_mask" if kind == "attention" else "source_mask": MEMORY_MASK[:, None]}
    explicit = layer(x, memory, **mask)
    # Of the target it hides padding from padding: no token sees what comes.
    tokens = IDS != 0
    np.testing.assert_allclose(output[tokens], explicit[tokens], atol=1e-5)
    unmasked = layer(x, memory)
    assert np.abs(unmasked[0] - output[0])[tokens[0]].max() > 1e-3


def test_a_decoder_does_not_see_padding_on_the_left():
    ids, x = vectors_of("ids")
    memory = keras.Input((None, WIDTH))
    layer = Decoder(1, SIZES)
    model = keras.Model([ids, memory], [x, layer(x, memory)])
    randomize(model)
    left = np.array([[0, 0, 5, 3, 1]])
    memory = np.random.default_rng(1).normal(size=(1, 3, WIDTH)).astype(np.float32)
    x, output = (np.asarray(one) for one in model([left, memory], training=True))
    np.testing.assert_allclose(output[:, 2:], layer(x[:, 2:], memory), atol=1e-5)


def test_masks_go_on_to_the_layers_behind():
    """Everything in one: what layers behind them read is masked, too."""
    (source, x), (target, y) = vectors_of("source"), vectors_of("target")
    memory = Encoder(1, SIZES, name="encoder")(x)
    y = Decoder(1, PRE, name="decoder")(y, memory)
    y = MultiHeadAttention(2, 4, 4, name="attention")(y)
    model = keras.Model([source, target], keras.layers.GlobalAveragePooling1D()(y))
    randomize(model)
    padded = np.pad(IDS, ((0, 0), (0, 3)))
    expected = model([MEMORY_IDS, IDS])
    np.testing.assert_allclose(model([MEMORY_IDS, padded]), expected, atol=1e-5)
