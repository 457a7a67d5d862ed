"""A search under the grammar of trees against all trees there are; a vocabulary of six symbols."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.grammar import GrammaticalModel, TreeGrammar
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch, MarianSearch, Sampling, tree_grammar
from t2t_repro.errors import UserError
from t2t_repro.parsing.trees import delinearise
from t2t_repro.text.sentencepiece import SentencePieceModel, WordMarks
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.test_beam_search import TableModel, log_prob_of, random_tables

SYMBOLS = ["A", "/A", "B", "/B", "n", "/"]
# No tree has the last three: a symbol in pieces, one that closes nothing, and a bracket.
PIECES = ["<pad>", "</s>", "<unk>", *(f"▁{one}" for one in SYMBOLS), "A", "▁/C", "▁("]
WORDS, LIMITS = [1, 2, 3, 0], [5, 6, 8, 4]
OF_SOURCE = ["<pad>", "</s>", "▁a", "b", "▁b"]
SOURCES = tf.constant([[2, 1, 0, 0], [2, 3, 4, 1], [4, 2, 4, 1], [1, 0, 0, 0]])


class Words(SentencePieceModel):
    """A vocabulary that no file has."""

    def __init__(self, pieces):
        self._pieces, self.word_marks = pieces, WordMarks.of(pieces, at_end=False)

    def pieces(self):
        return self._pieces


GRAMMAR = tree_grammar(SubwordPair(Words(OF_SOURCE), Words(PIECES)))


def text_of(ids):
    return " ".join(PIECES[one].strip("▁") for one in ids if one not in (PAD_ID, EOS_ID))


def is_tree(text, leaves):
    if not text:
        return not leaves
    try:
        tags = delinearise(text).tags
    except ValueError:
        return False
    return len(tags) == leaves and not {*tags} & {"A", "B"}


def written(row):
    """All outputs that the grammar allows to a sentence, found by following every id."""
    alive, ended = [()], set()
    while alive:
        count = len(alive)
        state = GRAMMAR.begin(SOURCES[row : row + 1], tf.constant(LIMITS[row : row + 1]), count)
        for ids in zip(*alive, strict=True):
            state = GRAMMAR.after(state, tf.constant([ids]))
        allowed = GRAMMAR.allowed(state).numpy()[0]
        assert allowed.any(axis=-1).all()
        following = [(*alive[i], int(one)) for i, one in zip(*allowed.nonzero(), strict=True)]
        ended |= {ids for ids in following if ids[-1] == EOS_ID}
        alive = [ids for ids in following if ids[-1] != EOS_ID]
    return ended


@pytest.mark.parametrize("row", range(4))
def test_exactly_the_trees_of_so_many_leaves_can_be_written(row):
    ended = written(row)
    assert max(map(len, ended)) <= LIMITS[row]
    most = range(LIMITS[row])
    of_all = (" ".join(one) for size in most for one in itertools.product(SYMBOLS, repeat=size))
    assert sorted(map(text_of, ended)) == sorted(one for one in of_all if is_tree(one, WORDS[row]))


def found_by(search, tables, n_best=1):
    model = GrammaticalModel(TableModel(), GRAMMAR)
    limits, beam = tf.constant(LIMITS[:2]), search.beam_size
    state = GRAMMAR.begin(SOURCES[:2], limits, beam)
    cache = (tf.constant(tables), tf.zeros([2, beam], tf.int32)), state
    constraints = DecodingConstraints(tf.zeros([2, 1], tf.int32), normalized=True)
    return search.search(model, cache, limits, 6, n_best, constraints)


TABLES = random_tables(seed=3, batch=2, vocab=len(PIECES), depth=6)


@pytest.mark.parametrize("search", [BeamSearch(1), BeamSearch(3), MarianSearch(3), Sampling(5)])
def test_every_search_ends_with_trees(search):
    found = found_by(search, TABLES, search.beam_size)
    assert found.finished.numpy().all()
    for row, words in enumerate(WORDS[:2]):
        for ids, score in zip(found.ids.numpy()[row], found.scores.numpy()[row], strict=True):
            assert is_tree(text_of(ids), words) or not ids.any()
            own = log_prob_of(TABLES[row], ids[: np.count_nonzero(ids)].tolist())
            assert not isinstance(search, Sampling) or score == pytest.approx(own, rel=1e-5)


def test_a_wide_beam_finds_the_best_tree_with_the_model_s_own_score():
    found = found_by(BeamSearch(200, 0.0), TABLES, 2)
    for row in range(2):
        best = sorted(((log_prob_of(TABLES[row], ids), ids) for ids in written(row)), reverse=True)
        ours = [tuple(ids[: np.count_nonzero(ids)].tolist()) for ids in found.ids.numpy()[row]]
        assert ours == [ids for _, ids in best[:2]]
        np.testing.assert_allclose(found.scores[row], [score for score, _ in best[:2]], rtol=1e-5)


def test_a_vocabulary_without_brackets_is_a_mistake():
    with pytest.raises(UserError, match="TreeGrammar"):
        TreeGrammar(SubwordPair(Words(PIECES), Words(["<pad>", "</s>", "<unk>", "▁a"])), {}, "")


def test_words_have_the_tags_of_the_dictionary():
    """Of "ab a b", the first word is two subwords, and has any of the other words' tags."""
    source = tf.constant([[2, 3, 2, 4, 1, 0]])
    tags = {"n": "a", "/ n": "b"}
    grammar = TreeGrammar(SubwordPair(Words(OF_SOURCE), Words(PIECES)), tags, "/ unknown")
    state = grammar.begin(source, tf.constant([4]), 1)
    found = []
    for leaf in ("/", "n", "/"):
        found.append([PIECES[one] for one in grammar.allowed(state).numpy().nonzero()[2]])
        state = grammar.after(state, tf.constant([[PIECES.index(f"▁{leaf}")]]))
    assert found == [["▁/"], ["▁n"], ["▁n", "▁/"]]
