"""The plan of an epoch: every sentence once, in slices that are full and fit."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t_repro.data.batch_shapes import choose_shapes
from t2t_repro.data.epoch_plan import epoch_plan


def corpus(sentences: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like those of a translation corpus: log-normal, the two sides alike."""
    generator = np.random.default_rng(seed)
    source = np.exp(generator.normal(3.1, 0.6, sentences))
    target = source * np.exp(generator.normal(0, 0.2, sentences))
    return np.clip(source.astype(int) + 1, 1, 256), np.clip(target.astype(int) + 1, 1, 256)


def check_epoch(plan, shapes, source, target):
    """Every sentence once, and every slice within the shape of its batch."""
    seen = []
    for index in range(len(plan)):
        shape = shapes[plan.shape_of_batch[index]]
        micro_batches = plan.micro_batches(index)
        assert sum(map(len, micro_batches))
        for of_slice in micro_batches:
            assert len(of_slice) <= shape.rows
            for lengths, length, tokens in zip(
                (source, target), shape.lengths, shape.tokens, strict=True
            ):
                assert lengths[of_slice].max(initial=0) <= length
                assert lengths[of_slice].sum() <= tokens
            seen += of_slice.tolist()
    assert sorted(seen) == list(range(len(source)))


@pytest.fixture(scope="module")
def lengths():
    return corpus(5000)


@pytest.fixture(scope="module")
def shapes(lengths):
    return choose_shapes(*lengths, tokens_per_micro_batch=1000, max_shapes=6)


def planned(shapes, lengths, micro_batches, seed, epoch):
    source, target = lengths
    return epoch_plan(shapes, source, target, micro_batches, seed, epoch)


def batches(plan):
    return [np.concatenate(plan.micro_batches(index)).tolist() for index in range(len(plan))]


def test_sentences_of_a_batch_are_about_as_long(lengths):
    shapes = choose_shapes(*lengths, tokens_per_micro_batch=1000, max_shapes=1)
    longer = np.maximum(*lengths)
    of_batches = [longer[batch] for batch in batches(planned(shapes, lengths, 1, 3, 2))]
    spread = np.mean([each.std() / each.mean() for each in of_batches])
    assert 0 < spread < longer.std() / longer.mean() / 4


def test_a_long_sentence_has_a_slice_of_its_own(lengths):
    shapes = choose_shapes(*lengths, tokens_per_micro_batch=260, max_shapes=2)
    check_epoch(planned(shapes, lengths, 2, 3, 2), shapes, *lengths)


def test_an_epoch_is_a_function_of_seed_and_number(lengths, shapes):
    first = planned(shapes, lengths, 2, 3, 2)
    again = planned(shapes, lengths, 2, 3, 2)
    assert batches(first) == batches(again)
    assert first.shape_of_batch.tolist() == again.shape_of_batch.tolist()
    for seed, epoch in ((3, 3), (4, 2), (2, 3)):
        other = planned(shapes, lengths, 2, seed, epoch)
        check_epoch(other, shapes, *lengths)
        # The longest sentences of all may meet again.
        assert len(set(map(frozenset, batches(first))) & set(map(frozenset, batches(other)))) <= 1
        assert other.shape_of_batch.tolist() != first.shape_of_batch.tolist()


def test_batches_come_in_any_order_and_draw_from_the_whole_corpus(lengths, shapes):
    plan = planned(shapes, lengths, 1, 0, 0)
    steps = np.diff(plan.shape_of_batch)
    assert (steps > 0).any()
    assert (steps < 0).any()
    full = [batch for batch in batches(plan) if len(batch) > 20]
    assert not any(batch == sorted(batch) for batch in full)
    assert all(max(batch) - min(batch) > 3000 for batch in full)


def short_sentences(sentences, seed, longest, micro_batches, **limits):
    """The plan, which is checked, of an epoch without longer sentences, and its source lengths."""
    source, target = (np.minimum(side, longest) for side in corpus(sentences, seed))
    shapes = choose_shapes(source, target, **limits)
    plan = epoch_plan(shapes, source, target, micro_batches, seed, 0)
    check_epoch(plan, shapes, source, target)
    return plan, source


@settings(max_examples=40, derandomize=True)
@given(st.integers(1, 400), st.sampled_from([1, 2, 8]), st.integers(0, 50))
def test_the_last_batches_are_alike_in_size(sentences, micro_batches, seed):
    """Few sentences are dealt out evenly: to the batches, and to the slices of each."""
    limits = {"tokens_per_micro_batch": 400, "max_shapes": 1}
    plan, source = short_sentences(sentences, seed, 40, micro_batches, **limits)
    tokens = [[source[part].sum() for part in plan.micro_batches(i)] for i in range(len(plan))]
    if len(tokens) > 1:
        of_batches = np.sum(tokens, axis=1)
        assert of_batches.min() > 0.3 * of_batches.max()
    # Slices are as full as each other, but for a few sentences.
    for of_slices in tokens[:-1]:
        assert max(of_slices) - min(of_slices) <= 0.4 * 400


@settings(max_examples=40)
@given(st.integers(200, 3000), st.sampled_from([1, 4]), st.integers(0, 50))
@example(200, 4, 2)
def test_no_batch_is_of_the_few_longest_sentences_alone(sentences, micro_batches, seed):
    """Where a slice has no row for them: its sentences are shorter than its shape's."""
    limits = {"tokens_per_micro_batch": 800, "max_shapes": 6}
    plan, source = short_sentences(sentences, seed, 60, micro_batches, **limits)
    tokens = [source[batch].sum() for batch in batches(plan)]
    assert min(tokens) > 0.3 * np.median(tokens)
