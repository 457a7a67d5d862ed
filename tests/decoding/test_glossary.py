"""A glossary against all outputs there are, and in every search of a translator."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.glossary import Glossary
from t2t_repro.decoding.grammar import GrammaticalModel
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch, MarianSearch, Sampling, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.decoding.test_beam_search import TableModel, log_prob_of, random_tables
from tests.decoding.test_grammar import Words
from tests.decoding.test_translator import assert_same

SOURCE = ["<pad>", "</s>", "<unk>", "▁a", "a", "b", "▁c", "▁C", "."]
TARGET = ["<pad>", "</s>", "<unk>", "▁x", "y", "▁z", "▁X"]
TERMS = "a\tx\nab\txy\nab\tzy\nc c\tx z\nc\tzyy\n"
FORMS = {"a": ["3", "6"], "ab": ["34", "64", "54"], "c c": ["35", "65"], "c": ["544"]}
# Of each sentence, how often each source stands in it, but not inside of a longer one.
COUNTS = {"ab.a.": {"ab": 1, "a": 1}, "c a c c C": {"a": 1, "c c": 2, "c": 1}, "b a a": {"a": 2}}
DEPTH = 5


class Letters(Words):
    """Each letter is an id."""

    def encode(self, lines):
        split = [[p for word in line.split() for p in (f"▁{word[0]}", *word[1:])] for line in lines]
        ids = {piece: place for place, piece in enumerate(self._pieces)}
        return [[*(ids.get(one, UNK_ID) for one in some), EOS_ID] for some in split]


@pytest.fixture
def terms(tmp_path):
    """Writes a file of terms."""

    def write(text):
        (tmp_path / "terms.tsv").write_text(text, encoding="utf-8")
        return str(tmp_path / "terms.tsv")

    return write


def bonus_of(written, counts):
    """The plain way: minus what is wanted, and a term that ends here gives it back."""
    total, left = -sum(n * max(map(len, FORMS[term])) for term, n in counts.items()), dict(counts)
    for end, term in itertools.product(range(1, len(written) + 1), counts):
        ending = [f for f in FORMS[term] if written[:end].endswith(f) and left[term]]
        total += max(map(len, ending), default=0)
        left[term] -= bool(ending)
    return 0.8 * total


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_wide_beam_finds_the_outputs_that_are_best_with_the_bonus(terms, alpha):
    batch, depth, beam = len(COUNTS), 5, 300
    grammar: Any = Glossary(SubwordPair(Letters(SOURCE), Letters(TARGET)), terms(TERMS), 0.8)
    sources = tf.ragged.constant(Letters(SOURCE).encode(COUNTS)).to_tensor(PAD_ID)
    tables, limits = random_tables(5, batch, len(TARGET), depth), tf.fill([batch], depth)
    state = grammar.begin(sources, limits, beam)
    cache = (tf.constant(tables), tf.zeros([batch, beam], tf.int32)), state
    source, gain = tf.zeros([batch, 1], tf.int32), grammar.gain(state)
    constraints = DecodingConstraints(source, None, None, (PAD_ID, UNK_ID), True, 0, gain)
    model = GrammaticalModel(TableModel(), grammar, normalized=True)
    found = BeamSearch(beam, alpha).search(model, cache, limits, depth, 3, constraints)
    outputs = [*itertools.chain(*(itertools.product("3456", repeat=n) for n in range(depth)))]
    for row, counts in enumerate(COUNTS.values()):
        scores = {}
        for output in map("".join, outputs):
            log_p = log_prob_of(tables[row], [*map(int, output), EOS_ID])
            scores[output] = (log_p + bonus_of(output, counts)) / ((6 + len(output)) / 6) ** alpha
        best = sorted(scores, key=lambda output: -scores[output])[:3]
        ours = ["".join(str(one) for one in ids if one > UNK_ID) for ids in found.ids.numpy()[row]]
        assert ours == best
        np.testing.assert_allclose(found.scores[row], [scores[one] for one in best], rtol=1e-4)


@pytest.fixture(scope="module")
def make(model, subwords):
    """Makes a translator with a search, and terms from a file."""

    def make(search, file=None, models=(model,)):
        # With a bonus that the model cannot resist.
        grammar: Any = file and partial(Glossary, file=file, bonus=30.0)
        settings = TranslatorSettings(search, 8, 24, grammar=grammar)
        return Translator(models, shared(subwords), settings)

    return make


LINES = ["The red bird sees a RED bird", "a tree", "", "the stone, and the cloud"]
# "Tree" stands nowhere in this case.
PAIRS = "red bird\tblue river\nbird\tCloud\nTree\thouse\nstone\tstone a\n"
WANTED = [["lue river", "Cloud"], [], [], ["stone a"]]


@pytest.mark.parametrize("search", [BeamSearch(1), MarianSearch(3), Sampling(4)])
def test_every_search_writes_the_terms_of_a_sentence(make, terms, search):
    translator = make(search, terms(PAIRS))
    found = translator.translate(LINES, search.beam_size)
    for (best, *_), wanted in zip(found, WANTED, strict=True):
        assert all(term in best.text for term in wanted)
    for line, expected in zip(LINES, found, strict=True):
        assert_same(translator.translate([line], search.beam_size), [expected])


def test_terms_count_with_ensembles_and_prefixes(make, terms, model):
    plain, file = make(BeamSearch(4)).translate(LINES), terms(PAIRS)
    translator = make(BeamSearch(4), file, models=(model, model))
    found = translator.translate(LINES, prefixes=["a blue river", "", "", "a"])
    # What the prefix has already is not wanted again.
    assert [best.text.count("lue river") for best, *_ in found] == [1, 0, 0, 0]
    assert ["Cloud" in one[0][0].text for one in (found, plain)] == [True, False]
    assert_same(found[1:2], plain[1:2])


CSV = 'location,source,target,fuzzy\n,Red bird,,\n,Red, ,\n,"red\nbird","blue river",\n'


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("text", [CSV, "\ufeffred bird\tblue river\r\nit\ta cloud\tnote\r\n"])
def test_terms_are_read_from_lines_with_tabs_and_from_csv(make, terms, text):
    found = make(BeamSearch(1), terms(text)).translate(LINES[:1])
    assert "lue river" in found[0][0].text


class WholeWords(Words):
    """Each word is an id."""

    def encode(self, lines):
        return [[*map(self._pieces.index, line.split()), EOS_ID] for line in lines]


def test_words_without_marks_are_words_and_tags_are_none(terms):
    source: Any = WholeWords(["<pad>", "</s>", "<unk>", "red", "bird", "c", "<c>"])
    pair = SubwordPair(source, Letters(TARGET))
    glossary = Glossary(pair, terms("red bird\tx\nc\tx\n"), 1.0)
    ids = tf.constant(source.encode(["<c> bird red bird"]))
    assert tf.reduce_sum(glossary.begin(ids, tf.constant([9]), 1).wanted) == 1


BAD_LINES = ["", "a", "a\t", "\tx", "a\tx\n\na\n", "a\t" + "x " * 21, "a\tq", "q\tx"]


@pytest.mark.parametrize("text", [*BAD_LINES, CSV[:28], CSV + ',"a'])
def test_what_is_no_term_is_a_mistake(terms, text):
    with pytest.raises(UserError, match=r"terms\.tsv"):
        Glossary(SubwordPair(Letters(SOURCE), Letters(TARGET)), terms(text), 1.0)
