"""Your own search (epsilon sampling of docs/extending.md), and what holds for all searches."""

from typing import Any

import gin
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch, ImportedBehaviour, Sampling, TranslatorSettings
from t2t_repro.decoding.translator import Translator
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
    decoder, source = StepDecoder(small_model("paper"), search.beam_size), tf.constant(SOURCE)
    constraints = DecodingConstraints(source)
    cache = decoder.begin(source)
    return search.search(decoder, cache, tf.constant(limits), max(limits), 1, constraints)


def test_where_no_id_is_probable_enough_it_is_greedy():
    limits = [9, 4, 7][: len(SOURCE)]
    gin.parse_config("Translator.search = @EpsilonSampling()\nEpsilonSampling.epsilon = 1.0")
    drawn = found_by(TranslatorSettings().search, limits)
    greedy = found_by(BeamSearch(1), limits)
    np.testing.assert_array_equal(drawn.ids, greedy.ids)
    np.testing.assert_array_equal(drawn.finished, greedy.finished)


@pytest.mark.parametrize("search", [BeamSearch(3), Sampling(2), EpsilonSampling(0.1)])
def test_forbidden_pad_keeps_its_probability_or_gives_it_to_the_others(search):
    model = small_model("Marian's")
    bias = np.zeros(model.vocab_size, np.float32)
    bias[PAD_ID] = 9.0
    model.logits_bias.assign(bias)
    sources = tf.constant(padded([[3, 6, 6, 3, 6, EOS_ID], [5, 7, EOS_ID]]))
    no_subwords: Any = None
    found = {}
    for forbid, renormalize in ((False, False), (True, False), (True, True)):
        imported = ImportedBehaviour(forbid_pad=forbid, renormalize=renormalize)
        settings = TranslatorSettings(search, 3, imported=imported)
        result = Translator([model], shared(no_subwords), settings).search_batch(sources, 1)
        found[forbid, renormalize] = result.ids.numpy()[:, 0], result.scores.numpy()[:, 0]
    ids, scores = found[True, False]
    assert (found[False, False][0][:, 0] == PAD_ID).all()
    for row in ids.tolist():
        length = row.index(PAD_ID) if PAD_ID in row else len(row)
        assert row[length - 1] == EOS_ID or length in (6, 9)
        assert not any(row[length:])
    # PAD is some 9 nats above the others, each of which gets most of that.
    assert (found[True, True][1] > scores + 3).all()
