"""Beam search against enumeration, and against a slow, plain search.

All models here are tables. A prefix is a node of the tree in which the root has the number 0 and
the child of node n by the id i has the number n·vocab + 1 + i; row n of a table has the log-probs
of the id that follows prefix n. So the ids may depend on the whole prefix.
"""

from collections.abc import Iterable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.decoding import step_loop
from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.search import UNFILLED_SCORE, DecodingConstraints, SearchResult
from t2t_repro.decoding.settings import BeamSearch, power_penalty, wu_penalty
from t2t_repro.vocabulary import EOS_ID, PAD_ID


def child(node, id_, vocab):
    return node * vocab + 1 + id_


def random_tables(seed: int, batch: int, vocab: int, depth: int) -> np.ndarray:
    """[batch, nodes, vocab] log-probs."""
    nodes = sum(vocab**d for d in range(depth))
    logits = np.random.default_rng(seed).normal(scale=1.5, size=[batch, nodes, vocab])
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)


def with_likely_pad(tables: np.ndarray) -> np.ndarray:
    """The same, with half of the probability PAD's, and the others' shares of each other kept."""
    others = np.exp(tables[..., 1:]) / np.exp(tables[..., 1:]).sum(-1, keepdims=True)
    everything = [np.full_like(others[..., :1], 0.5), others / 2]
    return np.log(np.concatenate(everything, axis=-1)).astype(np.float32)


def log_prob_of(table: np.ndarray, ids: Iterable[int]) -> float:
    """Of some ids, from a table [nodes, vocab]."""
    node, total = 0, 0.0
    for id_ in ids:
        total += float(table[node, id_])
        node = child(node, id_, table.shape[-1])
    return total


class TableModel:
    """A model whose cache is the tables, [batch, nodes, vocab], and the node of each hypothesis."""

    def __init__(self, steps=None):
        self.steps = [] if steps is None else steps

    def make_room(self, cache, positions):
        return cache

    def step(self, ids, parents, position, cache):
        tables, nodes = cache
        nodes = tf.gather(nodes, parents, batch_dims=1)
        nodes = tf.where(position > 0, child(nodes, ids, tables.shape[-1]), nodes)
        nodes = tf.minimum(nodes, tf.shape(tables)[1] - 1)  # a row that is done leaves the tree
        self.steps.append(tables.shape[0])
        return tf.gather(tables, nodes, batch_dims=1), (tables, nodes)


def search(
    tables,
    limits,
    beam_size,
    alpha,
    n_best=1,
    max_steps=None,
    prefix=None,
    kind=BeamSearch,
    forbidden=(),
    normalized=False,
    **options,
) -> SearchResult:
    """Runs the search; tables and limits may be of one row, [nodes, vocab] and an int."""
    if len(tables.shape) == 2:
        tables, limits = tables[None], [limits]
    limits = tf.convert_to_tensor(limits)
    source = tf.zeros_like(limits)[:, None]
    prefix = None if prefix is None else tf.constant(prefix)
    return kind(beam_size, alpha, **options).search(
        TableModel(),
        (tf.convert_to_tensor(tables), tf.zeros([tf.shape(tables)[0], beam_size], tf.int32)),
        limits,
        tf.reduce_max(limits) if max_steps is None else max_steps,
        n_best,
        DecodingConstraints(source, prefix, None, forbidden, normalized),
    )


def plain_search(
    table, limit, beam_size, alpha, n_best, early_stop=True, beginning=(), first=PAD_ID
):
    """Beam search as one would explain it, for one row: [(score, ids), ...], best first."""
    vocab = table.shape[-1]

    def lp(length):
        return ((5 + length) / 6) ** alpha

    alive: list[tuple[float, tuple[int, ...], int]] = [(0.0, (), 0)]  # log-prob, ids, node
    finished: list[tuple[float, tuple[int, ...]]] = []  # score, ids
    for length in range(1, limit + 1):
        enough = len(finished) >= n_best and (
            not alive or finished[n_best - 1][0] >= alive[0][0] / lp(limit)
        )
        if not alive or (early_stop and enough):
            break
        candidates = [
            (before + float(table[node, id_]), (*ids, id_), child(node, id_, vocab))
            for before, ids, node in alive
            for id_ in (beginning[length - 1 : length] or range(first, vocab))
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        candidates = candidates[: 2 * beam_size if beam_size > 1 else 1]
        finished += [(total / lp(length), i) for total, i, _ in candidates if i[-1] == EOS_ID]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[0])[:beam_size]
        alive = [candidate for candidate in candidates if candidate[1][-1] != EOS_ID][:beam_size]
    return (finished or [(total, ids) for total, ids, _ in alive])[:n_best]


def assert_row(result: SearchResult, row: int, expected: list[tuple[float, tuple]]) -> None:
    """Checks a row against (score, ids), best first; what is not expected must be unfilled."""
    ids = np.full(result.ids.shape[1:], PAD_ID)
    scores = np.full(result.scores.shape[1:], UNFILLED_SCORE)
    for place, (expected_score, expected_ids) in enumerate(expected):
        ids[place, : len(expected_ids)] = expected_ids
        scores[place] = expected_score
    np.testing.assert_array_equal(result.ids[row], ids)
    np.testing.assert_allclose(result.scores[row], scores, rtol=2e-6, atol=2e-6)


def assert_same(result: SearchResult, expected: SearchResult) -> None:
    np.testing.assert_array_equal(result.ids, expected.ids)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(result.finished, expected.finished)
    assert int(result.steps) == int(expected.steps)


def test_penalties_are_equation_14_and_a_power():
    lengths = np.arange(50)
    wu, power = wu_penalty(tf.range(50), 0.6), power_penalty(tf.range(50), 0.7)
    np.testing.assert_allclose(wu, ((5 + lengths) / 6) ** 0.6, rtol=1e-6)
    np.testing.assert_allclose(power, [1, *lengths[1:] ** 0.7], rtol=1e-6)


def test_row_stops_when_nothing_alive_can_win():
    """EOS is finished after a step, but until the second one "a" may still win."""
    with np.errstate(divide="ignore"):
        table = np.log(np.array([[0.0, 0.4, 0.6]] * 40, np.float32))
    result = search(table, 4, beam_size=2, alpha=0.0)
    assert int(result.steps) == 2
    assert_row(result, 0, [(np.log(0.4), (EOS_ID,))])


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize(("segment", "beam_size", "n_best"), [(16, 1, 1), (1, 4, 3), (16, 7, 4)])
def test_equals_plain_search_in_a_batch_and_alone(monkeypatch, segment, beam_size, alpha, n_best):
    """PAD is likely, and forbidden at the end: what is left keeps its own probability."""
    monkeypatch.setattr(step_loop, "SEGMENT", segment)
    limits = [5, 3, 0, 1, 5, 4, 5, 5]
    tables = random_tables(seed=beam_size, batch=len(limits), vocab=5, depth=5)
    together = search(tables, limits, beam_size, alpha, n_best)
    likely_pad = with_likely_pad(tables)
    without = search(likely_pad, limits, beam_size, alpha, n_best, forbidden=(PAD_ID,))

    for row, limit in enumerate(limits):
        arguments = (tables[row], limit, beam_size, alpha, n_best)
        expected = plain_search(*arguments)
        assert_row(together, row, expected)
        assert_row(without, row, plain_search(likely_pad[row], *arguments[1:], first=EOS_ID))
        if alpha == 0.6:
            assert_row(search(*arguments, max_steps=5), 0, expected)
        if beam_size > 1:  # greedy decoding stops at EOS, there is nothing to go on with
            assert plain_search(*arguments, early_stop=False) == expected


def enumerated(table, limit, alpha, beginning=()):
    """Every translation with a beginning, best first: [(score, ids), ...]."""
    vocab, ended, cut = table.shape[-1], [], []
    texts = [beginning[:limit]]
    for _ in range(limit + 1):
        ended += [ids for ids in texts if ids and ids[-1] == EOS_ID]
        alive = [ids for ids in texts if not ids or ids[-1] != EOS_ID]
        cut += [ids for ids in alive if len(ids) == limit]
        texts = [(*ids, id_) for ids in alive if len(ids) < limit for id_ in range(vocab)]
    found = [(log_prob_of(table, ids) / ((5 + len(ids)) / 6) ** alpha, ids) for ids in ended]
    return sorted(found or [(log_prob_of(table, ids), ids) for ids in cut], reverse=True)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    vocab_and_limit=st.sampled_from([(2, 5), (3, 4), (4, 4), (5, 3)]),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.5]),
)
def test_beam_of_all_prefixes_is_exhaustive_search(seed, vocab_and_limit, alpha):
    vocab, limit = vocab_and_limit
    tables = random_tables(seed, batch=1, vocab=vocab, depth=limit)
    expected = enumerated(tables[0], limit, alpha)
    assert len(expected) == sum((vocab - 1) ** length for length in range(limit))
    beam_size = max((vocab - 1) ** limit, len(expected))
    result = search(tables[0], limit, beam_size, alpha, n_best=len(expected))
    assert_row(result, 0, expected)


def test_eager_graph_and_xla_agree(monkeypatch):
    monkeypatch.setattr(step_loop, "SEGMENT", 2)
    beam_size, batch, vocab, steps = 4, 6, 7, 4
    tables = tf.constant(random_tables(seed=3, batch=batch, vocab=vocab, depth=steps))
    limits = tf.constant([4, 0, 2, 4, 1, 3])

    def run(tables, limits, max_steps):
        return search(tables, limits, beam_size, 0.6, n_best=beam_size, max_steps=max_steps)

    ints, number = tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)
    signature = [tf.TensorSpec([None, None, vocab]), ints, number]
    dynamic = tf.function(run, input_signature=signature)
    xla = tf.function(lambda tables, limits: run(tables, limits, steps), jit_compile=True)

    eager = run(tables, limits, steps)
    assert_same(dynamic(tables, limits, steps), eager)
    assert_same(xla(tables, limits), eager)
    assert_same(dynamic(tables[2:3], limits[2:3], steps), run(tables[2:3], limits[2:3], steps))
    assert dynamic.experimental_get_tracing_count() == 1


def test_sentences_that_are_done_leave_the_batch(monkeypatch):
    """At the end of a segment, of two steps here; those without a limit never enter."""
    monkeypatch.setattr(step_loop, "SEGMENT", 2)
    tables = random_tables(seed=3, batch=5, vocab=5, depth=6)
    tables[:, :, EOS_ID] = -50  # nothing ends before its limit
    tables = tf.nn.log_softmax(tables).numpy()
    model, limits = TableModel(), [6, 0, 3, 1, 4]
    cache = (tf.constant(tables), tf.zeros([5, 2], tf.int32))
    result = BeamSearch(2).search(
        model, cache, tf.constant(limits), 6, 1, DecodingConstraints(tf.zeros([5, 1], tf.int32))
    )
    assert model.steps == [4, 4, 3, 3, 1, 1]
    for row, limit in enumerate(limits):
        assert_row(result, row, plain_search(tables[row], limit, 2, 0.6, 1))


BEGINNINGS = [(), (3,), (2, 3), (2, 2, 2), (2, 3, 2, 3), (3, 3, 3, 3, 3), (2, EOS_ID)]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_given_beginning_is_kept_and_the_best_that_follows_is_found(alpha):
    """Against all translations there are; a beam of all is exhaustive. Other rows have others."""
    limits, vocab = [4, 4, 3, 4, 4, 4, 4], 4
    tables = random_tables(seed=9, batch=len(limits), vocab=vocab, depth=4)
    tables[1, 0, 3] = -200  # what the model would never begin with
    tables[3, :, EOS_ID] = -9  # the best ones are long
    tables = tf.nn.log_softmax(tables).numpy()
    prefix = padded(BEGINNINGS)
    result = search(tables, limits, 64, alpha, n_best=3, prefix=prefix)
    for row, (limit, beginning) in enumerate(zip(limits, BEGINNINGS, strict=True)):
        assert_row(result, row, enumerated(tables[row], limit, alpha, beginning)[:3])
    for n_best, beam_size in ((1, 1), (1, 4), (3, 4)):
        some = search(tables, limits, beam_size, alpha, n_best, prefix=prefix)
        for row, (limit, beginning) in enumerate(zip(limits, BEGINNINGS, strict=True)):
            arguments = (tables[row], limit, beam_size, alpha, n_best)
            assert_row(some, row, plain_search(*arguments, beginning=beginning))


def test_scores_are_float32_whatever_the_logits_are():
    tables = tf.cast(random_tables(seed=5, batch=4, vocab=6, depth=4), tf.bfloat16)
    limits = [4] * 4
    result = search(tables, limits, beam_size=3, alpha=0.6, n_best=3)
    # The same numbers in float32, normalised again, as rounding has moved their sum away from 1.
    expected = search(tf.nn.log_softmax(tf.cast(tables, tf.float32)), limits, 3, 0.6, n_best=3)
    assert result.scores.dtype == tf.float32
    assert_same(result, expected)
