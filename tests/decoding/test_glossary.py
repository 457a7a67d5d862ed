"""A glossary against all outputs there are, and in every search of a translator."""

import itertools
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.grammar import GrammaticalModel
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import (
    BeamSearch,
    MarianSearch,
    Sampling,
    TranslatorSettings,
    glossary,
)
from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.decoding.test_beam_search import TableModel, log_prob_of, random_tables
from tests.decoding.test_grammar import Words
from tests.decoding.test_translator import assert_same

SPECIAL = ["<pad>", "</s>", "<unk>"]
SOURCE = [*SPECIAL, "▁a", "a", "b", "▁c", "▁C", "."]
TARGET = [*SPECIAL, "▁x", "y", "▁z", "▁X"]
TERMS = [("a", "x"), ("ab", "xy"), ("ab", "zy"), ("c c", "x z"), ("c", "zyy")]
# Of each sentence, how often each source stands in it.
SENTENCES = {
    "ab.a.": {"ab": 1, "a": 1},
    "a c c C": {"a": 1, "c c": 2, "c": 3},
    "b a a": {"a": 2},
    "b": {},
}
FORMS = {"a": "3 6", "ab": "34 64 54", "c c": "35 65", "c": "544 544"}
BONUS, DEPTH = 0.8, 5


class Letters(Words):
    """Each letter is an id."""

    def encode(self, lines):
        split = [[p for word in line.split() for p in (f"▁{word[0]}", *word[1:])] for line in lines]
        ids = {piece: place for place, piece in enumerate(self._pieces)}
        return [[*(ids.get(one, UNK_ID) for one in some), EOS_ID] for some in split]


@pytest.fixture
def terms(tmp_path):
    """Writes a file of terms."""

    def write(pairs, text=""):
        path = tmp_path / "terms.tsv"
        path.write_text(text or "".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
        return str(path)

    return write


def bonus_of(written, counts):
    """The plain way: minus what is wanted, and a term that ends here gives it back."""
    wanted = (count * max(map(len, FORMS[term].split())) for term, count in counts.items())
    total, left = -sum(wanted), dict(counts)
    for end in range(1, len(written) + 1):
        for term in left:
            ending = [f for f in FORMS[term].split() if written[:end].endswith(f) and left[term]]
            total += max(map(len, ending), default=0)
            left[term] -= bool(ending)
    return BONUS * total


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_wide_beam_finds_the_outputs_that_are_best_with_the_bonus(terms, alpha):
    pair = SubwordPair(Letters(SOURCE), Letters(TARGET))
    grammar = glossary(pair, terms(TERMS), BONUS)
    sources = tf.ragged.constant([*map(list, Letters(SOURCE).encode(SENTENCES))]).to_tensor(PAD_ID)
    tables = random_tables(seed=5, batch=len(SENTENCES), vocab=len(TARGET), depth=DEPTH)
    limits, beam = tf.fill([len(SENTENCES)], DEPTH), 300
    model = GrammaticalModel(TableModel(), grammar, normalized=True)
    state = grammar.begin(sources, limits, beam)
    cache = (tf.constant(tables), tf.zeros([len(SENTENCES), beam], tf.int32)), state
    keys, forbidden = tf.range(len(SENTENCES), dtype=tf.int64), (PAD_ID, UNK_ID)
    constraints = DecodingConstraints(keys, None, None, forbidden, True, 0, grammar.gain(state))
    search = tf.function(BeamSearch(beam, alpha).search)
    found = search(model, cache, limits, DEPTH, 3, constraints)
    outputs = [*itertools.chain(*(itertools.product("3456", repeat=n) for n in range(DEPTH)))]
    for row, counts in enumerate(SENTENCES.values()):
        scores = {}
        for output in map("".join, outputs):
            log_p = log_prob_of(tables[row], [*map(int, output), EOS_ID])
            penalty = ((5 + len(output) + 1) / 6) ** alpha
            scores[output] = (log_p + bonus_of(output, counts)) / penalty
        best = sorted(scores, key=scores.get, reverse=True)[:3]
        ours = ["".join(str(one) for one in ids if one > UNK_ID) for ids in found.ids.numpy()[row]]
        assert ours == best
        np.testing.assert_allclose(
            found.scores[row], [scores[one] for one in best], rtol=1e-4, atol=1e-5
        )


@pytest.fixture(scope="module")
def make(model, subwords):
    """Makes a translator with a search, and terms from a file."""

    def make(search, file=None, bonus=30.0, models=(model,)):
        made = file and partial(glossary, file=file, bonus=bonus)
        settings = TranslatorSettings(search, 8, 24, grammar=made)
        return Translator(models, shared(subwords), settings)

    return make


LINES = ["The red bird sees a RED bird", "a tree", "", "the stone, and the cloud"]
PAIRS = [("red bird", "blue river"), ("bird", "Cloud"), ("Tree", "house"), ("stone", "stone a")]
# With a bonus that the model cannot resist. "Tree" is not in the sentences in this case.
WANTED = [["lue river", "Cloud"], [], [], ["stone a"]]


@pytest.mark.parametrize("search", [BeamSearch(1), MarianSearch(3), Sampling(4)])
def test_every_search_writes_the_terms_of_a_sentence(make, terms, search):
    translator = make(search, terms(PAIRS))
    found = translator.translate(LINES, search.beam_size)
    for (best, *_), wanted in zip(found, WANTED, strict=True):
        assert all(term in best.text for term in wanted)
    for line, expected in zip(LINES, found, strict=True):
        assert_same(translator.translate([line], search.beam_size), [expected])


def test_terms_count_with_ensembles_prefixes_and_shortlists(make, terms, model, subwords):
    plain, file = make(BeamSearch(4)).translate(LINES), terms(PAIRS)
    translator = make(BeamSearch(4), file, models=(model, model))
    found = translator.translate(LINES, prefixes=["a blue river", "", "", "a"])
    # What the prefix has already is not wanted again.
    assert [best.text.count("lue river") for best, *_ in found] == [1, 0, 0, 0]
    assert found[0][0].text.startswith("a blue river")
    assert ["Cloud" in one[0][0].text for one in (found, plain)] == [True, False]
    assert_same(found[1:2], plain[1:2])
    lists = ShortlistFile(*(np.zeros([size], np.int32) for size in (model.vocab_size + 1, 0, 0)))
    settings = translator.settings
    short = Translator([model], shared(subwords), settings, lists)
    assert_same(short.translate(LINES), translator.translate(LINES))


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffred bird\tblue river\r\ntree\ta cloud\tnote\r\n",
        'location,source,target,fuzzy\n,Red bird,,\n,"red bird","blue river",\n',
    ],
)
def test_terms_are_read_from_lines_with_tabs_and_from_csv(make, terms, text):
    found = make(BeamSearch(1), terms((), text)).translate(LINES[:1])
    assert "lue river" in found[0][0].text


@pytest.mark.parametrize(
    "text", ["", "bird", "bird\t", "\tbird", "a\ta\n\nbird\n", "source,target\n", "a\t" + "a " * 21]
)
def test_what_is_no_term_is_a_mistake(make, terms, text):
    with pytest.raises(UserError, match=r"terms\.tsv"):
        make(BeamSearch(1), terms((), text) if text else terms(()))
