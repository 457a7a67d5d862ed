"""A search of one's own: epsilon sampling, as docs/extending.md has it."""

from typing import Any

import gin
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.pair_scores import padded
from t2t_repro.decoding.random_numbers import keys_of
from t2t_repro.decoding.sampling import Sampling
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.errors import UserError
from t2t_repro.model.step_decoder import StepDecoder
from t2t_repro.text.subword_model import shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.model.test_transformer import SOURCE, small_model
from tests.whole.extending import examples

[MODULE] = [part.modules["my_search.py"] for part in examples() if part.title == "A search"]
_made: dict[str, Any] = {"__name__": "my_search"}
exec(MODULE, _made)
EpsilonSampling = _made["EpsilonSampling"]


def found_by(search, limits):
    model = small_model("paper")
    decoder = StepDecoder(model, search.beam_size)
    begun, given = (
        decoder.begin(tf.constant(SOURCE)),
        DecodingConstraints(keys_of(tf.constant(SOURCE))),
    )
    return search.search(decoder, begun, tf.constant(limits), max(limits), 1, given)


def test_where_no_id_is_probable_enough_it_is_greedy():
    limits = [9, 4, 7][: len(SOURCE)]
    greedy, drawn = (found_by(search, limits) for search in (BeamSearch(1), EpsilonSampling(1.0)))
    np.testing.assert_array_equal(drawn.ids, greedy.ids)
    np.testing.assert_array_equal(drawn.finished, greedy.finished)


def test_other_seeds_give_other_translations():
    first, again, other = (
        found_by(EpsilonSampling(0.01, seed), [12] * len(SOURCE)).ids.numpy() for seed in (1, 1, 2)
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
    return Translator([small_model("paper")], shared(words), TranslatorSettings(search))


def test_gin_binds_it():
    gin.parse_config("Translator.search = @EpsilonSampling()\nEpsilonSampling.epsilon = 1.0")
    words: Any = Words()
    translator = Translator([small_model("paper")], shared(words))
    assert isinstance(translator.settings.search, EpsilonSampling)
    lines = ["a bird sees a tree", "", "the house"]
    drawn = [found[0].text for found in translator.translate(lines)]
    gin.clear_config()
    greedy = translator_with(BeamSearch(1)).translate(lines)
    assert drawn == [found[0].text for found in greedy]


@pytest.mark.parametrize(
    "search", [BeamSearch(1), BeamSearch(3), Sampling(2), EpsilonSampling(0.1)]
)
def test_pad_that_is_forbidden_leaves_its_probability_or_gives_it_away(search):
    """The others share what PAD had, where that is asked for: scores are those without it."""
    words: Any = Words()
    model = small_model("Marian's")
    bias = np.zeros(model.vocab_size, np.float32)
    bias[PAD_ID] = 9.0
    model.logits_bias.assign(bias)
    lines = ["a bird sees a tree", "the house"]
    found = {}
    for forbid, renormalize in ((False, False), (True, False), (True, True)):
        translator = Translator(
            [model],
            shared(words),
            TranslatorSettings(search, 3, forbid_pad=forbid, renormalize=renormalize),
        )
        sources = tf.constant(padded(words.encode(lines)))
        result = translator.search_batch(sources, 1)
        found[forbid, renormalize] = result.ids.numpy()[:, 0], result.scores.numpy()[:, 0]
    ids, scores = found[True, False]
    assert (found[False, False][0][:, 0] == PAD_ID).all()
    for row in ids.tolist():
        length = row.index(PAD_ID) if PAD_ID in row else len(row)
        assert row[length - 1] == EOS_ID or length in (6, 9)
        assert not any(row[length:])
    # Of some 9 nats that PAD is above the others, each id has got most.
    assert (found[True, True][1] > scores + 3).all()


@pytest.mark.parametrize("search", [4, "beam", BeamSearch])
def test_what_is_no_search(search):
    with pytest.raises(UserError, match=r"Translator.search is .*, expected a Search, @name\(\)"):
        translator_with(search)
