"""Diverse beam search against a slow search that does as the paper says, group by group."""

import gin
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.config.gin_files import configure
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.diverse_beam_search import DiverseBeamSearch
from t2t_repro.decoding.search import UNFILLED_SCORE, DecodingConstraints
from t2t_repro.errors import UserError
from t2t_repro.experiment import TRAINING_ROOTS
from t2t_repro.vocabulary import EOS_ID
from tests.decoding.test_beam_search import (
    TableModel,
    assert_row,
    assert_same,
    child,
    random_tables,
    with_likely_pad,
)

ALPHA = 0.6


def run(search, tables, limits, n_best=1, prefix=None, forbid_pad=False):
    tables, limits = tf.convert_to_tensor(tables), tf.convert_to_tensor(limits)
    batch = tf.shape(tables)[0]
    cache = (tables, tf.zeros([batch, search.beam_size], tf.int32))
    known = DecodingConstraints(tf.zeros([batch], tf.int64), prefix, forbid_pad=forbid_pad)
    return search.search(TableModel(), cache, limits, tf.reduce_max(limits), n_best, known)


def plain_search(table, limit, groups, size, strength, first=0):
    """For one row: [(score, ids), ...] of all groups, best first."""
    vocab = table.shape[-1]

    def lp(length):
        return ((5 + length) / 6) ** ALPHA

    # Of every group: log-prob, what is held against it, ids, node.
    alive: list[list[tuple]] = [[(0.0, 0.0, (), 0)] for _ in range(groups)]
    finished: list[list[tuple]] = [[] for _ in range(groups)]
    for length in range(1, limit + 1):
        chosen: list[int] = []
        for group in range(groups):
            candidates = [
                (
                    before + float(table[node, id_]),
                    against + strength * chosen.count(id_),
                    (*ids, id_),
                    child(node, id_, vocab),
                )
                for before, against, ids, node in alive[group]
                for id_ in range(first, vocab)
            ]
            candidates.sort(key=lambda one: -(one[0] - one[1]))
            candidates = candidates[: 2 * size if size > 1 else 1]
            finished[group] += [
                (log_p / lp(length), ids) for log_p, _, ids, _ in candidates if ids[-1] == EOS_ID
            ]
            finished[group] = sorted(finished[group], key=lambda one: -one[0])[:size]
            alive[group] = [one for one in candidates if one[2][-1] != EOS_ID][:size]
            chosen += [one[2][-1] for one in alive[group]]
    everything = [one for group in finished for one in group] or [
        (log_p, ids) for group in alive for log_p, _, ids, _ in group
    ]
    best: dict[tuple, float] = {}
    for score, ids in everything:
        best.setdefault(ids, score)
    return sorted(((score, ids) for ids, score in best.items()), key=lambda one: -one[0])


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    groups_and_size=st.sampled_from([(1, 3), (2, 1), (2, 2), (3, 1), (3, 2), (2, 3)]),
    strength=st.sampled_from([0.0, 0.3, 1.0, 10.0]),
)
def test_is_what_the_paper_says(seed, groups_and_size, strength):
    groups, size = groups_and_size
    limits = [4, 2, 0, 1, 4]
    tables = random_tables(seed, batch=len(limits), vocab=5, depth=4)
    search = DiverseBeamSearch(groups, groups * size, strength, ALPHA)
    every = run(search, tables, limits, n_best=search.beam_size)
    best = run(search, tables, limits, n_best=1)
    for row, limit in enumerate(limits):
        expected = plain_search(tables[row], limit, groups, size, strength)
        assert_row(every, row, expected[: search.beam_size])
        assert_row(best, row, expected[:1])


def test_pad_can_be_forbidden():
    limits = [4, 2, 0, 1, 4]
    tables = random_tables(seed=3, batch=len(limits), vocab=5, depth=4)
    tables = with_likely_pad(tables)
    found = run(DiverseBeamSearch(2, 4, 0.3, ALPHA), tables, limits, n_best=4, forbid_pad=True)
    for row, limit in enumerate(limits):
        assert_row(found, row, plain_search(tables[row], limit, 2, 2, 0.3, first=EOS_ID)[:4])


@pytest.mark.parametrize(("groups", "strength"), [(1, 0.5), (4, 0.0)])
def test_without_diversity_it_is_beam_search(groups, strength):
    """Of several groups without strength every one finds the same, which counts once."""
    tables = random_tables(seed=7, batch=12, vocab=6, depth=4)
    limits = [4] * 12
    diverse = DiverseBeamSearch(groups, groups * 3, strength, ALPHA)
    plain = BeamSearch(3, ALPHA)
    for n_best in (1, 3):
        assert_same(run(diverse, tables, limits, n_best), run(plain, tables, limits, n_best))
    if groups > 1:
        assert (run(diverse, tables, limits, 4).scores.numpy()[:, 3] == UNFILLED_SCORE).all()


def test_groups_differ_the_more_the_stronger():
    tables = random_tables(seed=9, batch=20, vocab=7, depth=4)
    tables[:, :, EOS_ID] = -50  # nothing ends: every group's hypothesis is seen

    def first_ids(strength):
        found = run(DiverseBeamSearch(4, 4, strength), tables, [4] * 20, n_best=4)
        exists = found.scores.numpy() > UNFILLED_SCORE
        rows = zip(found.ids.numpy()[:, :, 0], exists, strict=True)
        return np.mean([len(set(ids[there])) for ids, there in rows])

    assert first_ids(0.0) == 1
    assert 1 < first_ids(0.5) < first_ids(5.0) == 4


def test_a_given_beginning_is_every_group_s():
    tables = random_tables(seed=5, batch=3, vocab=6, depth=4)
    tables[:, :, EOS_ID] = -50
    prefix = tf.constant([[3, 2], [4, 0], [0, 0]])
    search = DiverseBeamSearch(2, 4, 1.0, ALPHA)
    found = run(search, tables, [4] * 3, 4, prefix)
    exists = found.scores.numpy() > UNFILLED_SCORE
    ids = found.ids.numpy()
    assert (ids[0][exists[0]][:, :2] == [3, 2]).all()
    assert (ids[1][exists[1]][:, 0] == 4).all()
    assert exists.sum(axis=1).min() > 1
    free = run(search, tables, [4] * 3, 4)
    np.testing.assert_array_equal(ids[2], free.ids[2])


def test_in_a_graph_of_any_shape():
    tables = random_tables(seed=3, batch=5, vocab=6, depth=4)
    limits = [4, 0, 2, 4, 1]
    search = DiverseBeamSearch(2, 4, 0.5)
    in_graph = tf.function(
        lambda tables, limits, n_best: run(search, tables, limits, n_best),
        input_signature=[
            tf.TensorSpec([None, None, 6]),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([], tf.int32),
        ],
        autograph=False,
    )
    for n_best in (1, 4):
        found = in_graph(tf.constant(tables), tf.constant(limits), tf.constant(n_best))
        assert_same(found, run(search, tables, limits, n_best))


def test_a_beam_that_cannot_be_divided():
    with pytest.raises(UserError, match=r"beam_size is 5, expected a multiple of .*groups = 2"):
        DiverseBeamSearch(2, 5)


def test_gin_binds_it():
    configure(
        None,
        ["Translator.search = @DiverseBeamSearch()", "DiverseBeamSearch.groups = 2"],
        TRAINING_ROOTS,
    )
    assert gin.get_configurable("DiverseBeamSearch")() == DiverseBeamSearch(groups=2)
    gin.clear_config()
