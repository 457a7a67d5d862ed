"""Batches that fit, as many for every worker, within the memory."""

import os
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.decoding import batch_plan
from t2t_repro.decoding.batch_plan import BatchPlanner, compute_batches
from t2t_repro.errors import UserError


def one_byte(length):
    """The memory of a sentence where there is more than enough."""
    return 1


@settings(max_examples=50)
@given(
    lengths=st.lists(st.integers(0, 30), max_size=40),
    workers=st.integers(1, 3),
    tokens_per_batch=st.sampled_from([1, 40, 100, 10**6]),
)
def test_workers_have_as_many_batches_each_as_even_as_can_be(lengths, workers, tokens_per_batch):
    planner = BatchPlanner(tokens_per_batch, workers, 2, one_byte)
    batches, at_once = planner.plan(lengths)
    assert at_once == workers

    def largest(batches):
        sizes = (len(batch) * 2 * max(lengths[n] for n in batch) for batch in batches)
        return max(sizes, default=0)

    told = sorted(number for batch in batches for number in batch)
    assert told == [number for number, length in enumerate(lengths) if length]
    widths = [2 * length for length in lengths]
    fewest = len(group_by_length(widths, tokens_per_batch))
    wanted = -(-fewest // workers) * workers
    assert len(batches) <= wanted
    for budget in range(max([*widths, 1]), largest(batches)):
        assert len(group_by_length(widths, budget)) > wanted


@pytest.fixture
def with_memory(monkeypatch):
    """Sets the bytes that all workers may take."""
    return lambda memory: monkeypatch.setattr(batch_plan, "available_memory", lambda: 2 * memory)


def test_free_memory_is_that_of_the_machine_or_of_its_container(monkeypatch, tmp_path):
    files = {"/proc/meminfo": tmp_path / "meminfo", "/sys/fs/cgroup": tmp_path}
    monkeypatch.setattr(batch_plan, "Path", files.__getitem__)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   7 kB\n")
    (tmp_path / "memory.current").write_text("5000\n")
    (tmp_path / "memory.stat").write_text("anon 4\ninactive_file 300\nactive_file 40\n")
    for limit, available in (("max", 7168), ("6000", 1340), ("60000", 7168)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert batch_plan.available_memory() == available
    (tmp_path / "meminfo").unlink()
    (tmp_path / "memory.max").unlink()
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert batch_plan.available_memory() == whole


@pytest.mark.parametrize(("has_gpu", "cores"), [(False, [1]), (True, [])])
def test_an_operation_has_one_core_where_there_is_no_gpu(has_gpu, cores, monkeypatch):
    received: list[int] = []
    threads = "tensorflow.config.threading.set_intra_op_parallelism_threads"
    monkeypatch.setattr(threads, received.append)
    monkeypatch.setattr(batch_plan, "_has_gpu", lambda: has_gpu)
    batch_plan.limit_operations_to_one_core()
    assert received == cores
    # After the first operation it is too late.
    monkeypatch.setattr(threads, Mock(side_effect=RuntimeError))
    batch_plan.limit_operations_to_one_core()


@pytest.mark.parametrize(("memory", "most"), [(9000, 9000), (2**40, 2**34)])
def test_a_sentence_has_bounded_memory(with_memory, memory, most):
    with_memory(memory)
    planner = BatchPlanner(8192, 1, 4, lambda length: length)
    assert [list(batch) for batch in planner.plan([most])[0]] == [[0]]
    with pytest.raises(UserError, match=f"{most + 1} subwords"):
        planner.plan([most + 1])


@pytest.mark.parametrize("workers", [1, 3])
def test_the_batches_of_all_workers_have_bounded_memory(workers, with_memory):
    """However many subwords a configuration asks for, and however long translations may be."""
    planner = BatchPlanner(10**6, workers, 4, lambda length: 1000 * length)
    with_memory(int(7.5 * workers * 5000))
    batches, at_once = planner.plan([5] * 100)
    assert max(map(len, batches)) == 7
    assert sum(map(len, batches)) == 100
    assert at_once == workers


def test_a_sentence_that_takes_most_of_the_memory_is_decoded_alone(with_memory):
    planner = BatchPlanner(8192, 3, 4, lambda length: 1000 * length)
    needed = 1000 * 900
    for memory, workers in ((needed, 1), (2 * needed, 2), (9 * needed, 3)):
        with_memory(memory)
        batches, at_once = planner.plan([900, 300, 1, 0])
        assert batches[-1].tolist() == [0]
        assert at_once == workers
    assert planner.plan([]) == ([], 3)


def test_the_share_of_the_sentences_that_is_done_is_reported_after_each_batch():
    batches, shares = [np.array([3]), np.array([0, 4, 1])], list[float]()
    assert compute_batches(list, batches, 2, [9] * 5, shares.append) == [0, 1, 9, 3, 4]
    assert shares == [0.75, 1.0]
