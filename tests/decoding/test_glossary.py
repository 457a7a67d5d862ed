"""A glossary against all outputs there are, and in every search of a translator."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.grammar import GrammaticalModel
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch, MarianSearch, Sampling, glossary
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.decoding.test_beam_search import TableModel, log_prob_of, random_tables
from tests.decoding.test_grammar import Words
from tests.decoding.test_translator import assert_same

SPECIAL = ["<pad>", "</s>", "<unk>"]
SOURCE, TARGET = [*SPECIAL, *"▁a a b ▁c ▁C .".split()], [*SPECIAL, *"▁x y ▁z ▁X".split()]
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
