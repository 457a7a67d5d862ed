"""Decoding step by step against the full forward pass."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.step_decoder import StepDecoder, bytes_of_row
from t2t_repro.model.transformer import Transformer
from tests.buffers import xla_bytes
from tests.model.test_transformer import SOURCE, VOCAB, every_variant, small_model

BEAM = 3


def full_logits(model, prefixes):
    """[batch, beam, length] → logits of the last position, by the full forward pass."""
    batch, beam, length = prefixes.shape
    source = np.repeat(SOURCE, beam, axis=0)
    logits = model((source, prefixes.reshape(batch * beam, length)))
    return logits[:, -1].numpy().reshape(batch, beam, VOCAB)


def steps_of(decoder, rooms=(2, 3, 1)):
    """Yields prefixes [batch, beam, length], and the scores of what follows them.

    Hypotheses, each with its own prefix, are exchanged at every step. The room grows as the
    positions come.
    """
    rng = np.random.default_rng(0)
    size = len(SOURCE), BEAM
    cache = decoder.begin(tf.constant(SOURCE))
    prefixes = np.zeros((*size, 0), np.int32)
    last = parents = np.zeros(size, np.int32)
    for room in rooms:
        cache = decoder.make_room(cache, room)
        for _ in range(room):
            position = tf.constant(prefixes.shape[2])
            scores, cache = decoder.step(tf.constant(last), tf.constant(parents), position, cache)
            yield np.pad(prefixes, ((0, 0), (0, 0), (0, 1))), scores
            parents = rng.integers(BEAM, size=size, dtype=np.int32)
            last = rng.integers(VOCAB, size=size, dtype=np.int32)
            prefixes = np.take_along_axis(prefixes, parents[..., None], axis=1)
            prefixes = np.concatenate([prefixes, last[..., None]], axis=-1)


@every_variant
def test_step_by_step_is_the_full_forward_pass(variant):
    model = small_model(variant)
    for prefixes, logits in steps_of(StepDecoder(model, BEAM)):
        np.testing.assert_allclose(logits, full_logits(model, prefixes), atol=1e-5)


def test_what_was_never_written_is_not_read():
    model = small_model()
    decoder = StepDecoder(model, 2)
    ids = tf.zeros((len(SOURCE), 2), tf.int32)

    def first_logits(rubbish):
        cache = decoder.make_room(decoder.begin(tf.constant(SOURCE)), 4)
        past = tf.nest.map_structure(lambda kv: kv + rubbish, cache.past)
        return decoder.step(ids, ids, tf.constant(0), cache._replace(past=past))[0]

    np.testing.assert_allclose(first_logits(1e3), first_logits(0.0), atol=1e-5)


@pytest.mark.parametrize("neighbourhood", [None, 5])
def test_of_a_long_sentence_the_encoder_takes_most(neighbourhood):
    length = 400
    model = Transformer(VOCAB, 2, LayerConfig(16, 64, 4), neighbourhood=neighbourhood)
    model.build()
    source = tf.ones([1, length], tf.int32)
    needed = xla_bytes(lambda ids: model.encode(ids, training=False), source)
    assert needed < bytes_of_row(model, 1, length, 10) < 1.2 * needed


@pytest.mark.parametrize("kind", ["attention", "ssru"])
def test_a_decoder_layer_takes_the_memory_of_its_caches(kind):
    estimates, caches = [], []
    for layers in (1, 3):
        config = LayerConfig(16, 8, 4, d_k=3, d_v=5, decoder_self_attention=kind)
        model = Transformer(VOCAB, 2, config, num_decoder_layers=layers)
        model.build()
        estimates.append(bytes_of_row(model, BEAM, SOURCE.shape[1], 50))
        decoder = StepDecoder(model, BEAM)
        cache = decoder.make_room(decoder.begin(tf.constant(SOURCE[:1])), 50)
        arrays = tf.nest.flatten([cache.memory, cache.past])
        caches.append(sum(array.numpy().nbytes for array in arrays))
    assert estimates[1] - estimates[0] == caches[1] - caches[0]
