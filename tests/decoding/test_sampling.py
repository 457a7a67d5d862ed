"""Sampling against enumeration, and against beam search where both must find the same."""

import functools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.sampling import draw, draw_from_nucleus, draw_from_top_k, hashed, keys_of
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch, Sampling
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.test_beam_search import TableModel, child, random_tables

ROWS = 4000
KEYS = np.arange(ROWS, dtype=np.int64) * 10**15


def drawn(search, tables, limits, keys, n_best=None, prefix=None, seeds=None, forbidden=()):
    """Samples, from tables [batch, nodes, vocab] of `TableModel`."""
    tables, limits = tf.convert_to_tensor(tables), tf.convert_to_tensor(limits)
    cache = (tables, tf.zeros([tf.shape(tables)[0], search.beam_size], tf.int32))
    known = DecodingConstraints(
        tf.convert_to_tensor(keys)[:, None],
        None if prefix is None else tf.constant(prefix),
        None if seeds is None else tf.constant(seeds, tf.int64),
        forbidden,
    )
    n_best = n_best or search.beam_size
    depth = {21: 3, 781: 5}[tables.shape[1]]
    return search.search(TableModel(), cache, limits, depth, n_best, known)


def texts_of(result):
    """The ids of every sample, EOS included: [batch][n_best]."""
    found: list[list[tuple[int, ...]]] = []
    for row in result.ids.numpy().tolist():
        found.append([])
        for ids in row:
            length = ids.index(EOS_ID) + 1 if EOS_ID in ids else len(ids)
            found[-1].append(tuple(ids[:length]))
    return found


def kept(p, temperature=1.0, top_k=None, nucleus=None, forbidden=()):
    """The distribution that is drawn from, by its definition."""
    p = p.astype(np.float64) ** (1 / temperature)
    p[list(forbidden)] = 0
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if top_k is not None:
        p[order[top_k:]] = 0
        p /= p.sum()
    if nucleus is not None:
        size = next(n for n in range(1, len(p) + 1) if p[order[:n]].sum() >= nucleus)
        p[order[size:]] = 0
        p /= p.sum()
    return p


def enumerated(table, limit, ids=(), node=0, **how):
    """Every translation, with its probability of being drawn and under the model."""
    if len(ids) == limit or (ids and ids[-1] == EOS_ID):
        return {ids: (1.0, 0.0)}
    found = {}
    p = kept(np.exp(table[node]), **how)
    for id_ in np.flatnonzero(p):
        after = enumerated(table, limit, (*ids, int(id_)), child(node, id_, len(p)), **how)
        for text, (probability, log_p) in after.items():
            found[text] = (p[id_] * probability, table[node, id_] + log_p)
    return found


def assert_drawn_from(counts, p):
    """Pearson's chi-square; what is rare counts as one."""
    assert set(counts) <= set(p)
    expected = {text: sum(counts.values()) * of_text for text, of_text in p.items()}
    frequent = [text for text in p if expected[text] >= 5]
    rare = [text for text in p if expected[text] < 5]
    pairs = [(counts.get(text, 0), expected[text]) for text in frequent]
    if rare:
        pairs.append((sum(counts.get(t, 0) for t in rare), sum(expected[t] for t in rare)))
    chi_square = sum((found - asked) ** 2 / max(asked, 1e-9) for found, asked in pairs)
    freedom = len(pairs) - 1
    # Exceeded about once in ten thousand times.
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5 + 10


HOW = [
    {},
    {"temperature": 3.0},
    {"nucleus": 0.7},
    {"temperature": 0.7, "top_k": 3, "nucleus": 0.8},
    {"temperature": 0.7, "top_k": 2, "nucleus": 0.9, "forbidden": (PAD_ID, 3)},
]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_frequencies_are_those_of_enumeration(how):
    (table,) = random_tables(seed=4, batch=1, vocab=4, depth=3)
    expected = enumerated(table, 3, **how)
    options = {name: value for name, value in how.items() if name != "forbidden"}
    tables, forbidden = np.tile(table, [ROWS, 1, 1]), how.get("forbidden", ())
    result = drawn(Sampling(2, **options), tables, [3] * ROWS, KEYS, forbidden=forbidden)
    texts = texts_of(result)
    for number in range(2):
        counts = Counter(row[number] for row in texts)
        assert_drawn_from(counts, {text: p for text, (p, _) in expected.items()})
    # The samples of a sentence know nothing of each other.
    first = Counter((row[0][0], row[1][0]) for row in texts)
    p = kept(np.exp(table[0]), **how)
    of_pairs = {(a, b): p[a] * p[b] for a in range(4) for b in range(4) if p[a] * p[b]}
    assert_drawn_from(first, of_pairs)
    # The score is the model's, however ids are drawn.
    scores = [[expected[text][1] for text in row] for row in texts]
    np.testing.assert_allclose(result.scores, scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vocab", [3, 101])
def test_a_draw_has_the_probabilities_of_its_ids(vocab):
    p = np.random.default_rng(vocab).dirichlet(np.full(vocab, 0.4)).astype(np.float32)
    # Several ids are equally probable.
    p[: vocab // 2] = p[: vocab // 2].mean()
    rows, states = tf.tile(p[None], [ROWS, 1]), hashed(tf.constant(KEYS), vocab)
    k = min(7, vocab - 1)
    for ids, how in [
        (draw(rows, states), {}),
        (draw_from_top_k(rows, states, k), {"top_k": k}),
        (draw_from_top_k(rows, states, k, 0.6), {"top_k": k, "nucleus": 0.6}),
        (draw_from_nucleus(rows, states, 0.1), {"nucleus": 0.1}),
        (draw_from_nucleus(rows, states, 0.9), {"nucleus": 0.9}),
    ]:
        asked = kept(p, **how)
        expected = {id_: of_id for id_, of_id in enumerate(asked) if of_id}
        assert_drawn_from(Counter(ids.numpy().tolist()), expected)


LIMITS = [5, 3, 1, 5, 4, 5]
TABLES = random_tables(seed=7, batch=len(LIMITS), vocab=5, depth=5)
ROW_KEYS = np.array([3, -9, 2**62, 17, 18, 3])


@functools.cache
def all_drawn(nucleus):
    return texts_of(drawn(Sampling(3, nucleus=nucleus), TABLES, LIMITS, ROW_KEYS))


@settings(max_examples=10, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    rows=st.lists(st.integers(0, len(LIMITS) - 1), min_size=1, max_size=9),
    nucleus=st.sampled_from([None, 0.8]),
    samples=st.integers(1, 3),
)
def test_a_sentence_has_the_same_samples_in_any_batch(rows, nucleus, samples):
    search, limits = Sampling(samples, nucleus=nucleus), [LIMITS[row] for row in rows]
    some = drawn(search, TABLES[rows], limits, ROW_KEYS[rows])
    assert texts_of(some) == [all_drawn(nucleus)[row][:samples] for row in rows]


def test_other_seeds_keys_and_numbers_give_other_samples():
    tables, limits = np.tile(TABLES[:1], [3, 1, 1]), [5] * 3
    tables = np.log(np.full_like(tables, 0.2))  # nothing is more probable
    first, again, other = (
        texts_of(drawn(Sampling(3, seed=seed), tables, limits, ROW_KEYS[:3])) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert first[0] != first[1]
    assert len(set(first[0])) > 1
    of_each = drawn(Sampling(3, seed=5), tables, limits, ROW_KEYS[:3], seeds=[2, 1, 2])
    assert texts_of(of_each) == [other[0], first[1], other[2]]


@pytest.mark.parametrize("how", [{"temperature": 0.001}, {"top_k": 1}, {"nucleus": 1e-6}])
def test_at_the_end_of_each_it_is_greedy_decoding(how):
    greedy = drawn(BeamSearch(1, 0.0), TABLES, LIMITS, ROW_KEYS)
    found = drawn(Sampling(**how), TABLES, LIMITS, ROW_KEYS)
    np.testing.assert_array_equal(found.ids, greedy.ids)
    np.testing.assert_array_equal(found.finished, greedy.finished)
    np.testing.assert_allclose(found.scores, greedy.scores, rtol=1e-5)


def test_its_own_beginning_gives_a_sample_again():
    plain = drawn(Sampling(), TABLES, LIMITS, ROW_KEYS)
    ids = plain.ids.numpy()[:, 0]
    for lengths in ([0] * 6, [1, 2, 0, 3, 1, 4], [5] * 6):
        prefix = np.where(np.arange(5) < np.array(lengths)[:, None], ids, PAD_ID)
        found = drawn(Sampling(), TABLES, LIMITS, ROW_KEYS, prefix=prefix[:, : max(lengths)])
        np.testing.assert_array_equal(found.ids, plain.ids)
        np.testing.assert_allclose(found.scores, plain.scores, rtol=1e-6)


# Random numbers


def test_a_hash_is_splitmix64():
    """The first numbers of the reference implementation, begun with 0."""
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    found = hashed(tf.constant(0, tf.int64), tf.range(3)).numpy().view(np.uint64)
    assert found.tolist() == first


def test_a_key_is_the_sentence_s_own():
    sentences = [[5, 6, 1], [6, 5, 1], [5, 6, 6, 1], [5, 1], [1], [2**31 - 1, 1]]
    narrow = padded(sentences)
    wide = np.pad(narrow, [(0, 0), (0, 5)], constant_values=PAD_ID)
    keys, others = (keys_of(tf.constant(ids)).numpy().tolist() for ids in (narrow, wide))
    assert keys == others
    assert len(set(keys)) == len(sentences)
