"""Another search than beam search: sampling, as a researcher would write and bind it."""

from typing import Any

import gin
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.subword_model import shared
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.search import SearchResult
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.models.step_decoder import StepDecoder
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.models.test_transformer import SOURCE, small_model


@gin.configurable(module="tests")
class Sampling:
    """Draws each id from the model's distribution, sharpened by a temperature."""

    beam_size = 1

    def __init__(self, temperature=1.0, seed=0):
        self.temperature = temperature
        self.seed = seed

    def search(self, model, cache, limits, max_steps, n_best=1):
        limits = tf.minimum(tf.cast(limits, tf.int32), max_steps)
        batch = tf.size(limits)
        cache = model.make_room(cache, max_steps)
        zeros = tf.zeros([batch, 1], tf.int32)

        def goes_on(step, last, ids, scores, cache):
            return (step < max_steps) & tf.reduce_any((last != EOS_ID) & (step < limits[:, None]))

        def advance(step, last, ids, scores, cache):
            logits, cache = model.step(last, zeros, step, cache)
            log_p = tf.nn.log_softmax(tf.cast(logits[:, 0], tf.float32) / self.temperature)
            drawn = tf.random.stateless_categorical(log_p, 1, [self.seed, step], tf.int32)
            is_over = (last == EOS_ID) | (step >= limits[:, None])
            drawn = tf.where(is_over, PAD_ID, drawn)
            gained = tf.gather(log_p, drawn, batch_dims=1)
            scores += tf.where(is_over, 0.0, gained)
            ids = tf.where(tf.range(max_steps) == step, drawn, ids)
            return step + 1, tf.where(is_over, last, drawn), ids, scores, cache

        ids, scores = tf.zeros([batch, max_steps], tf.int32), tf.zeros([batch, 1])
        steps, last, ids, scores, _ = tf.while_loop(
            goes_on, advance, (tf.constant(0), zeros, ids, scores, cache)
        )
        return SearchResult(ids[:, None], scores, last[:, 0] == EOS_ID, steps)


def found_by(search, limits):
    model = small_model("paper")
    decoder = StepDecoder(model, search.beam_size)
    begun = decoder.begin(tf.constant(SOURCE))
    return search.search(decoder, begun, tf.constant(limits), max(limits))


def test_sampling_at_no_temperature_is_greedy():
    limits = [9, 4, 7][: len(SOURCE)]
    greedy, sampled = (found_by(search, limits) for search in (BeamSearch(1), Sampling(1e-4)))
    np.testing.assert_array_equal(sampled.ids, greedy.ids)
    np.testing.assert_array_equal(sampled.finished, greedy.finished)


def test_other_seeds_give_other_translations():
    first, again, other = (
        found_by(Sampling(2.0, seed), [12] * len(SOURCE)).ids.numpy() for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


class Words:
    """Subwords enough for a translator: a word's id is its length."""

    def encode(self, lines):
        return [[2 + len(word) % 9 for word in line.split()] + [EOS_ID] for line in lines]

    def decode(self, ids):
        return " ".join(str(token) for token in ids if token > EOS_ID)


def translator_with(search: Any) -> Translator:
    words: Any = Words()
    return Translator(small_model("paper"), shared(words), search)


def test_gin_binds_it():
    gin.parse_config("Translator.search = @tests.Sampling()\ntests.Sampling.temperature = 1e-4")
    words: Any = Words()
    translator = Translator(small_model("paper"), shared(words))
    assert isinstance(translator.search, Sampling)
    lines = ["a bird sees a tree", "", "the house"]
    sampled = [found[0].text for found in translator.translate(lines)]
    gin.clear_config()
    greedy = translator_with(BeamSearch(1)).translate(lines)
    assert sampled == [found[0].text for found in greedy]


@pytest.mark.parametrize("search", [4, "beam", BeamSearch, object()])
def test_what_is_no_search(search):
    with pytest.raises(UserError, match=r"Translator.search is .*, expected @BeamSearch\(\) or"):
        translator_with(search)
