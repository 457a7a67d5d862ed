"""Marian's search against the same search in plain Python, written from its rules."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding import step_loop
from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.settings import MarianSearch
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.test_beam_search import assert_row, child, log_prob_of, random_tables, search

VOCAB, DEPTH = 9, 4
LIMITS = [4, 2, 0, 1, 4, 3, 4, 4]
FORBIDDEN = (2, 7)


def some_tables(seed):
    """[batch, nodes, vocab] log-probabilities; sentences end early in some rows, late in others."""
    tables = random_tables(seed, len(LIMITS), VOCAB, DEPTH)
    tables[::2, :, EOS_ID] += 2
    return tf.nn.log_softmax(tables).numpy()


def marians_list(table, limit, beam_size, normalize, word_penalty=0, forbidden=(), beginning=()):
    """Every result of the search for one row: [(score, ids), ...], best first."""

    def score(log_p, ids):
        return (log_p - word_penalty * len(ids)) / max(len(ids), 1) ** normalize

    alive: list[tuple[float, tuple[int, ...], int]] = [(0.0, (), 0)]
    results: list[tuple[float, tuple[int, ...]]] = []
    width = beam_size
    for length in range(1, limit + 1):
        allowed = [one for one in range(VOCAB) if one not in forbidden]
        extended = [
            (log_p + float(table[node, one]), (*ids, one), child(node, one, VOCAB))
            for log_p, ids, node in alive
            for one in (beginning[length - 1 : length] or allowed)
        ]
        extended = sorted(extended, key=lambda one: -one[0])[:width]
        ended = [(score(log_p, ids), ids) for log_p, ids, _ in extended if ids[-1] == EOS_ID]
        alive = [one for one in extended if one[1][-1] != EOS_ID]
        results += ended
        width -= len(ended)
        if not alive:
            break
    results += [(score(log_p, ids), ids) for log_p, ids, _ in alive]
    return sorted(results, key=lambda one: -one[0])


@pytest.mark.parametrize("beam_size", [1, 2, 6])
@pytest.mark.parametrize(
    ("normalize", "how"),
    [
        (0.0, {}),
        (1.0, {"forbidden": FORBIDDEN}),
        (1.0, {"word_penalty": 0.5}),
        (0.6, {"word_penalty": -0.2, "forbidden": FORBIDDEN}),
    ],
)
def test_lists_are_marians_in_a_batch_and_alone(monkeypatch, beam_size, normalize, how):
    monkeypatch.setattr(step_loop, "SEGMENT", 2)
    widths, mixed = set(), 0
    for seed in range(2):
        tables = some_tables(10 * beam_size + seed)
        arguments = beam_size, normalize, beam_size
        found = search(tables, LIMITS, *arguments, kind=MarianSearch, **how)
        for row, limit in enumerate(LIMITS):
            expected = marians_list(tables[row], limit, beam_size, normalize, **how)
            assert_row(found, row, expected)
            ends = [ids[-1:] == (EOS_ID,) for _, ids in expected]
            assert bool(found.finished[row]) == any(ends)
            widths.add(len(expected))
            mixed += 0 < sum(ends) < len(ends)
        alone = search(tables[0], LIMITS[0], *arguments, max_steps=DEPTH, kind=MarianSearch, **how)
        assert_row(alone, 0, marians_list(tables[0], LIMITS[0], beam_size, normalize, **how))
    assert widths == {1, beam_size}
    assert mixed or beam_size == 1


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_given_beginning_is_kept(beam_size):
    """Also one with a forbidden id, and one that ends the translation."""
    tables = some_tables(5)
    beginnings = [(), (3,), (3, 3), (2, 4), (2, 4), (3, EOS_ID), (4, 5, 6, 8), (8, 8)]
    how = {"prefix": padded(beginnings), "kind": MarianSearch, "forbidden": FORBIDDEN}
    found = search(tables, LIMITS, beam_size, 1.0, beam_size, **how)
    for row, (limit, beginning) in enumerate(zip(LIMITS, beginnings, strict=True)):
        expected = marians_list(tables[row], limit, beam_size, 1.0, 0, FORBIDDEN, beginning)
        assert_row(found, row, expected)


def test_scores_that_are_no_distribution_are_added_as_they_are():
    """As of an ensemble whose log-probabilities are summed; a prefix's too."""
    tables = some_tables(6) + some_tables(7)
    prefix = np.array([[3, PAD_ID, PAD_ID, PAD_ID]] * len(LIMITS), np.int32)
    found = search(tables, LIMITS, 4, 0.0, 4, prefix=prefix, kind=MarianSearch, normalized=True)
    for row, limit in enumerate(LIMITS):
        expected = marians_list(tables[row], limit, 4, 0.0, beginning=(3,))
        assert_row(found, row, expected)
        assert expected[0][0] == pytest.approx(log_prob_of(tables[row], expected[0][1]))


def test_bindings_of_the_papers_search_are_not_its_own():
    gin.parse_config("BeamSearch.beam_size = 9\nMarianSearch.word_penalty = 0.25")
    assert MarianSearch() == MarianSearch(4, 0.0, word_penalty=0.25)
