"""Ensembles: models of any sizes together, by mean probability or summed log-probabilities."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.settings import (
    BeamSearch,
    TranslatorSettings,
    mean_probability,
    sum_log_probabilities,
)
from t2t_repro.decoding.translator import Translator
from t2t_repro.model.ensemble import Ensemble
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.random_translator import random_model, write_subwords
from tests.model.test_step_decoder import BEAM, full_logits, steps_of
from tests.model.test_transformer import SOURCE, small_config, small_model


def two_models():
    return [small_model("learned"), small_model("SSRU")]


@pytest.mark.parametrize(
    ("combine", "without_pad"),
    [(mean_probability, False), (sum_log_probabilities, False), (sum_log_probabilities, True)],
)
def test_a_step_is_of_all_models(combine, without_pad):
    """Hypotheses that are exchanged at every step, against full passes of every model."""
    models = two_models()
    for prefixes, log_p in steps_of(Ensemble(models, combine, without_pad).decoder(BEAM)):
        each = [tf.nn.softmax(full_logits(model, prefixes)).numpy() for model in models]
        assert np.abs(each[0] - each[1]).max() > 0.1
        if without_pad:
            for p in each:
                p[..., PAD_ID] = 0
                p /= p.sum(axis=-1, keepdims=True)
        wanted = np.mean(each, axis=0) if combine is mean_probability else each[0] * each[1]
        np.testing.assert_allclose(np.exp(log_p), wanted, atol=1e-5)


def test_it_ends_where_the_first_of_its_models_does():
    longer = Transformer(**small_config("learned") | {"max_length": 12})
    assert Ensemble([longer, *two_models()], mean_probability).longest == 9
    # Sinusoids go on, whatever max_length says.
    endless = Transformer(**small_config("paper") | {"max_length": 5})
    assert Ensemble([endless], mean_probability).longest is None


def test_the_mean_is_of_float32_whatever_the_models_compute_in():
    mixed = Transformer(**small_config("paper"), dtype="mixed_bfloat16")
    mixed.build()
    decoder: Any = Ensemble([mixed, small_model()], mean_probability).decoder(1)
    known = decoder.make_room(decoder.begin(tf.constant(SOURCE)), 1)
    nothing = tf.zeros([len(SOURCE), 1], tf.int32)
    log_p, _ = decoder.step(nothing, nothing, tf.constant(0), known)
    assert log_p.dtype == tf.float32
    np.testing.assert_allclose(tf.reduce_sum(tf.exp(log_p), axis=-1), 1, rtol=1e-6)


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    return shared(write_subwords(tmp_path_factory.mktemp("subwords") / "made.model"))


def found_by(models, subwords, **settings):
    translator = Translator(
        models, subwords, TranslatorSettings(BeamSearch(4, 0.6), max_extra_length=4, **settings)
    )
    tree, a = subwords.source.encode(["tree", "a"])
    source = tf.constant([tree, a + [PAD_ID] * (len(tree) - len(a))])
    return source.numpy(), translator.search_batch(source, 1)


def models_of(subwords):
    """Of different sizes, one with the SSRU."""
    other = random_model(subwords.target, "float32", 8, 2, 7, {"decoder_self_attention": "ssru"})
    return [random_model(subwords.target), other]


def log_p_of(models, source, ids, combine):
    """log P of a translation, by full passes of every model."""
    each = [tf.nn.softmax(model((source[None], ids[None])))[0].numpy() for model in models]
    p = np.mean(each, axis=0) if combine is mean_probability else np.prod(each, axis=0)
    return np.log(p)[np.arange(len(ids)), ids].sum()


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("combine", [mean_probability, sum_log_probabilities])
def test_translations_have_the_score_that_all_models_give_them(subwords, combine):
    models = models_of(subwords)
    sources, found = found_by(models, subwords, ensemble=combine)
    for row, source in enumerate(sources):
        longest = (source > 0).sum() + 4
        ids = found.ids.numpy()[row, 0]
        length = list(ids).index(EOS_ID) + 1 if found.finished[row] else longest
        log_p = log_p_of(models, source, ids[:length], combine)
        penalty = ((5 + length) / 6) ** 0.6 if found.finished[row] else 1
        assert float(found.scores[row, 0]) == pytest.approx(log_p / penalty, rel=1e-5)
    for model in models:
        assert (found_by([model], subwords)[1].ids.numpy() != found.ids.numpy()).any()
