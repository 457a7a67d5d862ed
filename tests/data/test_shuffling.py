from collections import Counter

import numpy as np
import pytest

from t2t_repro.data.batch_shapes import BatchShape, choose_shapes
from t2t_repro.data.bucketing import assign_shapes
from t2t_repro.data.shuffling import epoch_plan


def corpus(sentences: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Lengths like those of a translation corpus: log-normal, the two sides alike."""
    generator = np.random.default_rng(seed)
    source = np.exp(generator.normal(3.1, 0.6, sentences))
    target = source * np.exp(generator.normal(0, 0.2, sentences))
    return np.clip(source.astype(int) + 1, 1, 256), np.clip(target.astype(int) + 1, 1, 256)


def check_epoch(plan, shapes, assignment):
    """Every sentence once, each in a batch of its shape; batches of a shape differ by one."""
    seen: Counter[int] = Counter()
    sizes: dict[int, list[int]] = {}
    for index in range(len(plan)):
        batch, shape = plan.batch(index), int(plan.shape_of_batch[index])
        assert 1 <= len(batch) <= shapes[shape].rows
        assert all(assignment[i] == shape for i in batch)
        seen.update(batch.tolist())
        sizes.setdefault(shape, []).append(len(batch))
    assert seen == Counter(range(len(assignment)))
    for shape, of_shape in sizes.items():
        assert max(of_shape) - min(of_shape) <= 1
        assert len(of_shape) == -(-sum(of_shape) // shapes[shape].rows)


@pytest.fixture(scope="module")
def planned():
    source, target = corpus(5000)
    shapes = choose_shapes(source, target, tokens_per_batch=4000, max_shapes=6)
    return shapes, assign_shapes(shapes, source, target)


def batches(plan):
    return [plan.batch(index).tolist() for index in range(len(plan))]


def test_an_epoch_is_a_function_of_seed_and_number(planned):
    shapes, assignment = planned
    first = epoch_plan(shapes, assignment, seed=3, epoch=2)
    again = epoch_plan(shapes, assignment, seed=3, epoch=2)
    assert batches(first) == batches(again)
    assert first.shape_of_batch.tolist() == again.shape_of_batch.tolist()
    for seed, epoch in ((3, 3), (4, 2), (2, 3)):
        other = epoch_plan(shapes, assignment, seed=seed, epoch=epoch)
        check_epoch(other, shapes, assignment)
        assert not set(map(frozenset, batches(first))) & set(map(frozenset, batches(other)))
        assert other.shape_of_batch.tolist() != first.shape_of_batch.tolist()


def test_neither_sentences_nor_shapes_come_sorted(planned):
    shapes, assignment = planned
    plan = epoch_plan(shapes, assignment, seed=0, epoch=0)
    steps = np.diff(plan.shape_of_batch)
    assert (steps > 0).any()
    assert (steps < 0).any()
    full = [batch for batch in batches(plan) if len(batch) > 20]
    assert not any(batch == sorted(batch) for batch in full)
    # Every batch draws from the whole corpus, not from a window of it.
    assert all(max(batch) - min(batch) > 3000 for batch in full)


def test_shapes_without_sentences_have_no_batches():
    shapes = (BatchShape(8, 5, 5), BatchShape(8, 7, 7), BatchShape(8, 9, 9))
    assignment = assign_shapes(shapes, [9, 8, 4], [1, 1, 1])
    plan = epoch_plan(shapes, assignment, 0, 0)
    check_epoch(plan, shapes, assignment)
    assert sorted(plan.shape_of_batch.tolist()) == [0, 2]
