"""What several processes agree on; that they train as one is in tests/faults."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training.workers import Workers, end_with_the_others


def alone():
    return Workers(tf.distribute.get_strategy())


def one_of(values, index=0):
    """A worker that finds the others' values when it gathers."""
    workers: Any = alone()
    workers.count, workers.index, workers.is_chief = len(values), index, index == 0
    workers.given = []

    def gather(value):
        workers.given.append(value)
        return values

    workers.gather = gather
    return workers


def test_one_process_is_a_chief_with_all_replicas():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for workers, replicas in ((alone(), range(1)), (Workers(strategy), range(2))):
        assert (workers.count, workers.index, workers.is_chief) == (1, 0, True)
        assert workers.replicas == replicas
        assert workers.gather({"a": 1}) == [{"a": 1}]


def gathered(replicas, values):
    """What is gathered of each value where each worker has so many of two replicas."""
    import tests.conftest  # noqa: F401 (this runs in a process of its own)

    workers = Workers(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    workers.count, workers.replicas = 2, range(replicas)
    return [workers.gather(value) for value in values]


@pytest.mark.parametrize("replicas", [1, 2])
def test_values_of_any_length_are_gathered(replicas):
    values = ["ein\nWort", None, [["ü" * 5000, {"a": 1.5}], 2]]
    # What other strategies of a process have summed before gets in the way of collectives.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        found = process.submit(gathered, replicas, values).result()
    # All say the same here.
    assert found == [[value] * (2 // replicas) for value in values]


def test_what_differs_is_told_with_the_worker():
    alone().check_same("x", 1)
    one_of([["a", "b"], ["a", "b"]]).check_same("lines", None)
    with pytest.raises(UserError, match=r'worker 1 has lines \["c"\], but worker 0 has \["b"\]: '):
        one_of([["a", "b"], ["a", "c"]]).check_same("lines", None)


def test_the_chief_s_mistake_ends_all():
    chief = one_of([None, None])
    with pytest.raises(UserError, match="no room"), chief.chief_first():
        raise UserError("no room")
    assert chief.given == ["no room"]
    other = one_of(["no room", None], index=1)
    with pytest.raises(UserError, match="no room"), other.chief_first():
        pytest.fail("the chief could not do it")
    # Once a worker: what it does after the chief is its own.
    with one_of([None, None], index=1).chief_first():
        pass
    with pytest.raises(UserError, match="mine"), one_of([None, None], 1).chief_first():
        raise UserError("mine")


def test_the_loss_of_another_is_one_line_and_the_status_to_start_again_on(capsys):
    text = "Graph execution error:\n\nCollective ops is aborted by: Connection reset\nand more"
    with pytest.raises(SystemExit) as end, end_with_the_others():
        raise tf.errors.UnavailableError(None, None, text)
    assert end.value.code == 143
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: another worker is lost (Collective ops is aborted by: Conn")
    # Nothing else is.
    with pytest.raises(tf.errors.ResourceExhaustedError), end_with_the_others():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")


def test_replicas_are_counted_through_all_workers(monkeypatch):
    """As TensorFlow counts them: a chief before the workers."""
    jobs = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    spec = tf.train.ClusterSpec(jobs)
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", SimpleNamespace)
    found = {}
    for kind, number in (("chief", 0), ("worker", 0), ("worker", 1)):
        resolver = SimpleNamespace(cluster_spec=lambda: spec, task_type=kind, task_id=number)
        strategy: Any = SimpleNamespace(cluster_resolver=resolver, num_replicas_in_sync=12)
        workers = Workers(strategy)
        found[kind, number] = (workers.count, workers.index, workers.replicas)
    assert found == {
        ("chief", 0): (3, 0, range(4)),
        ("worker", 0): (3, 1, range(4, 8)),
        ("worker", 1): (3, 2, range(8, 12)),
    }
