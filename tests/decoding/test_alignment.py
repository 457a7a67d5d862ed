"""Word alignments against sums over the attention maps, word by word."""

import re

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.attention.maps import collect_weights
from t2t_repro.decoding.alignment import Aligner
from t2t_repro.decoding.settings import AlignerSettings, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model

PAIRS = [
    ("the red bird sees a tree", "a tree sees a bird"),
    ("", "a"),
    ("a blue  house, the stone", "stone"),
    ("tree", "the river  and the cloud"),
    ("🙂 a", "\u200b a"),
    ("a\u00b4b \x01 the red", "tree\u00a8 \u200b bird\u00b4s a"),
    ("the cloud", "   "),
]
SOURCES, TARGETS = zip(*PAIRS, strict=True)


@pytest.fixture(scope="module")
def pair(subwords):
    return shared(subwords)


@pytest.fixture(scope="module")
def model(subwords):
    return random_model(subwords, num_decoder_layers=2)


def word_of_each(subwords, text):
    """The word of each subword, by cutting the text at its spaces and encoding word by word."""
    words = [subwords.encode([word])[0][:-1] for word in text.split()]
    return [ids for word in words for ids in word], [n for n, ids in enumerate(words) for _ in ids]


def plain_links(model, pair, source, target, layer):
    """For every word of the target the word of the source with the largest sum of attention."""
    if not source.split():
        return ""
    (source_ids, source_words), (target_ids, target_words) = (
        word_of_each(pair.target, text) for text in (source, target)
    )
    ids = [tf.constant([[*some, 1]]) for some in (source_ids, target_ids)]
    attention = collect_weights(model, *ids).cross[layer - 1, 0].mean(0)
    links = []
    for word in sorted({*target_words}):
        sums = [0.0] * len(source.split())
        for row, of_row in enumerate(target_words):
            for column, of_column in enumerate(source_words):
                if of_row == word:
                    sums[of_column] += attention[row, column]
        links.append(f"{int(np.argmax(sums))}-{word}")
    return " ".join(links)


@pytest.mark.parametrize("layer", [1, 2])
def test_links_are_those_of_the_attention_map(model, pair, layer):
    def aligned(layer, **more):
        settings = TranslatorSettings(aligner=AlignerSettings(layer), **more)
        return Translator([model], pair, settings).align(SOURCES, TARGETS)

    expected = [plain_links(model, pair, *both, layer) for both in PAIRS]
    assert aligned(layer) == aligned(layer, tokens_per_batch=1, workers=2) == expected
    # The layers tell different things, or this would show nothing.
    assert aligned(3 - layer) != expected
    assert expected[1] == expected[-1] == ""
    assert re.fullmatch(r"\d-0 \d-1 \d-2 \d-3 \d-4", expected[0])
    assert Translator([model], pair).align([], []) == []


def test_what_is_too_long_has_no_links(model, pair):
    settings = TranslatorSettings(max_extra_length=4, max_source_length=8)
    translator = Translator([model], pair, settings)
    (found,) = translator.align(["the red bird " * 9], ["the " * 50])
    links = [link.split("-") for link in found.split()]
    assert [int(target) for _, target in links] == list(range(len(links)))
    assert 0 < len(links) < 12
    assert max(int(source) for source, _ in links) < 8


def test_the_layer_by_default(pair):
    """Measured best for two and three layers: the last; of deeper models, Garg et al.'s."""
    for layers, expected in [(1, 1), (3, 3), (4, 3)]:
        model = random_model(pair.target, num_layers=2, num_decoder_layers=layers)
        assert Aligner(model, pair, AlignerSettings()).layer == expected
    with pytest.raises(UserError, match=r"Aligner\.layer is 5"):
        Aligner(model, pair, AlignerSettings(5))


def test_what_cannot_be_aligned(model, pair):
    with pytest.raises(UserError, match="ensemble"):
        Translator([model, model], pair).align(["a"], ["a"])
    with pytest.raises(ValueError, match="longer"):
        Translator([model], pair).align(["a"], ["a", "b"])
