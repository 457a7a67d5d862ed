"""How many replicas, and which of them are this process's."""

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from t2t_repro.training.devices import choose_strategy, own_replicas


def test_a_process_alone_has_all_replicas():
    assert choose_strategy().num_replicas_in_sync == 1
    assert own_replicas(choose_strategy()) == range(1)
    assert own_replicas(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])) == range(2)


def test_replicas_are_counted_through_all_workers(monkeypatch):
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:1", "c:1"]})
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", SimpleNamespace)
    found = []
    for number in range(3):
        resolver = SimpleNamespace(cluster_spec=lambda: spec, task_id=number)
        strategy: Any = SimpleNamespace(cluster_resolver=resolver, num_replicas_in_sync=12)
        found.append(own_replicas(strategy))
    assert found == [range(4), range(4, 8), range(8, 12)]
