"""Which processes train together, from what TF_CONFIG and Slurm say."""

import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.devices import _cluster, choose_strategy, is_chief

VARIABLES = ("TF_CONFIG", "SLURM_STEP_NUM_TASKS", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def tf_config(monkeypatch, jobs, kind, index):
    config = {"cluster": jobs, "task": {"type": kind, "index": index}, "environment": "cloud"}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.parametrize(
    ("jobs", "kind", "index", "chief"),
    [
        ({"worker": ["a:1", "b:1"]}, "worker", 0, True),
        ({"worker": ["a:1", "b:1"]}, "worker", 1, False),
        ({"chief": ["a:1"], "worker": ["b:1"]}, "chief", 0, True),
        ({"chief": ["a:1"], "worker": ["b:1"]}, "worker", 0, False),
    ],
)
def test_tf_config(monkeypatch, jobs, kind, index, chief):
    tf_config(monkeypatch, jobs, kind, index)
    resolver = _cluster()
    assert resolver is not None
    assert resolver.cluster_spec().as_dict() == jobs
    assert is_chief() == chief


def test_a_cluster_of_one_is_a_process_alone(monkeypatch):
    tf_config(monkeypatch, {"worker": ["a:1"]}, "worker", 0)
    assert _cluster() is None
    assert is_chief()
    assert choose_strategy().num_replicas_in_sync == 1


@pytest.mark.parametrize(
    ("jobs", "kind", "index"),
    [
        ({"worker": ["a:1", "b:1"]}, "worker", 2),
        ({"worker": ["a:1", "b:1"]}, "chief", 0),
        ({"worker": ["a:1"], "ps": ["b:1"]}, "worker", 0),
        ({"chief": ["a:1", "b:1"]}, "chief", 0),
    ],
)
def test_another_tf_config_is_refused(monkeypatch, jobs, kind, index):
    tf_config(monkeypatch, jobs, kind, index)
    with pytest.raises(UserError, match=r"TF_CONFIG is .*, expected JSON such as"):
        choose_strategy()


@pytest.mark.parametrize("text", ["{", "{}x"])
def test_a_tf_config_that_is_no_json_is_refused(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match=r"TF_CONFIG is .*, expected JSON such as"):
        choose_strategy()


def test_slurm(monkeypatch):
    """Machines whose names sort otherwise than their numbers: the rank is found by the name."""
    found: dict[str, int] = {}
    for number, (node, local) in enumerate([("n9", 0), ("n9", 1), ("n10", 0), ("n10", 1)]):
        for name, value in {
            "SLURM_PROCID": number,
            "SLURM_JOB_ID": 7,
            "SLURM_STEP_NUM_TASKS": 4,
            "SLURM_STEP_NODELIST": "n[9-10]",
            "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
            "SLURMD_NODENAME": node,
            "SLURM_LOCALID": local,
        }.items():
            monkeypatch.setenv(name, str(value))
        resolver = _cluster()
        assert resolver is not None
        addresses = resolver.cluster_spec().as_dict()["worker"]
        assert sorted(addresses) == ["n10:12007", "n10:12008", "n9:12007", "n9:12008"]
        found[addresses[resolver.task_id]] = resolver.task_id
        assert addresses[resolver.task_id] == f"{node}:{12007 + local}"
        assert is_chief() == (resolver.task_id == 0)
    assert sorted(found.values()) == [0, 1, 2, 3]
    # A batch script has the job's variables, but no step's.
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    assert _cluster() is None
