"""A shortlist: each sentence has its own ids, whatever is translated beside it."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.glossary import Glossary
from t2t_repro.decoding.settings import (
    BeamSearch,
    ImportedBehaviour,
    MarianSearch,
    Sampling,
    TranslatorSettings,
)
from t2t_repro.decoding.shortlist import LexicalShortlist, ShortlistFile, narrowed
from t2t_repro.decoding.translator import Translator
from t2t_repro.text.subword_model import shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.decoding.test_translator import assert_same

LINES = ["the red bird sees a tree", "a blue house", "", "the river, the stone and the cloud"]
FORBIDDEN = (UNK_ID, 8)


@dataclass(frozen=True)
class WholeVocabulary:
    """A search of someone else's: it is given scores of all ids."""

    inner: BeamSearch
    beam_size: int = 4

    def search(self, *inputs, **more):
        return self.inner.search(*inputs, **more)


@pytest.fixture(scope="module")
def lists(model):
    """Some random ids for each source id; about a quarter of all."""
    random = np.random.default_rng(4)
    size = model.vocab_size
    counts = random.integers(0, 9, size)
    counts[PAD_ID] = 0
    ids = random.integers(EOS_ID, size, counts.sum()).astype(np.int32)
    always = np.array([EOS_ID, UNK_ID, *range(8, 30)], np.int32)
    return ShortlistFile(np.cumsum([0, *counts]), ids, always)


@pytest.fixture(scope="module")
def translator(model, subwords, lists):
    imported = ImportedBehaviour(forbid_pad=True, forbidden_ids=FORBIDDEN)
    settings = TranslatorSettings(BeamSearch(4), 8, 24, imported=imported)
    return Translator([model], shared(subwords), settings, lists)


def allowed_ids(lists, source, vocab_size):
    """The obvious way: a set for a sentence."""
    found = {*lists.always, *(i for s in source for i in lists.ids[slice(*lists.splits[s:][:2])])}
    found -= {PAD_ID, *FORBIDDEN} - {UNK_ID}
    others = (one for one in range(vocab_size) if one not in {*found, PAD_ID, *FORBIDDEN})
    while len(found) % 8:
        found.add(next(others))
    return found


def test_a_sentence_has_the_ids_of_its_words_and_those_of_all(model, lists):
    shortlist = LexicalShortlist(lists, model.vocab_size, FORBIDDEN)
    source = np.array([[5, 9, 33, EOS_ID], [7, EOS_ID, PAD_ID, PAD_ID]], np.int32)
    allowed = shortlist.allowed(tf.constant(source)).numpy()
    for row, ids in zip(allowed, source, strict=True):
        assert {*np.nonzero(row)[0]} == allowed_ids(lists, ids, model.vocab_size)
    ids, left = narrowed(tf.constant(allowed))
    assert {*ids.numpy()} == {PAD_ID, *np.nonzero(allowed.any(axis=0))[0]}
    np.testing.assert_array_equal(left, allowed[:, ids])
    # LiteRT's ids are found without TensorFlow.
    never = np.isin(np.arange(model.vocab_size), [PAD_ID, 8])
    for row, its_ids in zip(allowed, source, strict=True):
        (expected,) = np.nonzero(row)
        assert lists.of_sentence(its_ids, never).tolist() == [PAD_ID, *expected]
    few = ShortlistFile.of_lists([np.array([], int), np.array([5])], np.arange(8, 15))
    assert few.of_sentence([EOS_ID], never & False).tolist() == [0, 1, 2, 5, *range(8, 15)]


@pytest.fixture
def glossary(tmp_path):
    (tmp_path / "terms.tsv").write_text("red bird\tblue river\nhouse\ta cloud\n")
    return partial(Glossary, file=str(tmp_path / "terms.tsv"), bonus=30.0)


@pytest.mark.parametrize("has_glossary", [False, True])
@pytest.mark.parametrize("search", [BeamSearch(4), MarianSearch(1)])
def test_translations_are_those_of_all_ids_with_the_others_masked(
    translator, search, has_glossary, glossary
):
    settings = replace(translator.settings, grammar=glossary if has_glossary else None)
    whole = replace(settings, search=WholeVocabulary(search, search.beam_size))
    expected = translator.with_settings(whole).translate(LINES, search.beam_size)
    narrow = translator.with_settings(replace(settings, search=search))
    assert_same(narrow.translate(LINES, search.beam_size), expected)
    alone = [found for line in LINES for found in narrow.translate([line], search.beam_size)]
    assert_same(alone, expected)
    if has_glossary:
        assert ["lue river" in best.text for best, *_ in expected] == [True, False, False, False]
    else:
        without = replace(settings, search=search, shortlist=False)
        assert translator.with_settings(without).translate(LINES) != narrow.translate(LINES)


def test_samples_have_no_other_ids(translator, lists, subwords, model):
    settings = replace(translator.settings, search=Sampling(16))
    translator.with_settings(settings).translate(LINES[:1], 16)
    (source,) = subwords.encode(LINES[:1])
    assert {*subwords.decoded} <= allowed_ids(lists, source, model.vocab_size) | {PAD_ID}


def test_a_prefix_may_have_any_ids(translator):
    found = translator.translate(LINES, prefixes=["a cloud", "the stone", "", ""])
    assert found[0][0].text.startswith("a cloud")
    assert found[1][0].text.startswith("the stone")
    assert np.isfinite([best.score for best, *_ in found]).all()


def test_models_of_an_ensemble_share_a_shortlist(translator):
    twice = translator.models * 2, translator.subwords, translator.settings
    with_lists = Translator(*twice, translator.shortlist_file)
    assert_same(with_lists.translate(LINES), translator.translate(LINES))
    assert Translator(*twice, None).translate(LINES) != with_lists.translate(LINES)


def test_a_file_is_read_as_written(lists, tmp_path):
    lists.write(tmp_path / "shortlist.npz")
    np.testing.assert_equal(ShortlistFile.read(tmp_path / "shortlist.npz"), lists)
