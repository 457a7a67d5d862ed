"""Which processes train together, from what TF_CONFIG and Slurm say."""

import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.cluster import Cluster, find_cluster, is_first

VARIABLES = ("TF_CONFIG", "SLURM_STEP_NUM_TASKS")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def tf_config(jobs, kind="worker", index: object = 0):
    task = {"type": kind, "index": index}
    return json.dumps({"cluster": jobs, "task": task, "environment": "cloud"})


@pytest.mark.parametrize(
    ("jobs", "kind", "index", "addresses", "number"),
    [
        ({"worker": ["a:1", "b:1"]}, "worker", 0, "a:1 b:1", 0),
        ({"worker": ["a:1", "b:1"]}, "worker", "1", "a:1 b:1", 1),
        ({"worker": ["b:1", "c:1"], "chief": ["a:1"]}, "chief", 0, "a:1 b:1 c:1", 0),
        ({"worker": ["b:1", "c:1"], "chief": ["a:1"]}, "worker", 1, "a:1 b:1 c:1", 2),
        ({"worker": ["[::1]:1", "[fe80::1%eth0]:2"]}, "worker", 1, "[::1]:1 [fe80::1%eth0]:2", 1),
    ],
)
def test_tf_config(monkeypatch, jobs, kind, index, addresses, number):
    """A chief is worker 0, as TensorFlow counts replicas."""
    monkeypatch.setenv("TF_CONFIG", tf_config(jobs, kind, index))
    assert find_cluster() == Cluster(tuple(addresses.split()), number)
    assert is_first() == (number == 0)


@pytest.mark.parametrize(
    "text", [tf_config({"worker": ["a:1"]}), tf_config({}), tf_config(None), "{}", "", "null"]
)
def test_a_cluster_of_one_is_a_process_alone(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    assert find_cluster() is None


TWO = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (tf_config(TWO, index=2), "the task is worker 2, of 2"),
        (tf_config(TWO, index=-1), "the task is worker -1, of 2"),
        (tf_config(TWO, index=True), "the task is worker True, of 2"),
        (tf_config(TWO, index=None), "the task is worker None, of 2"),
        (tf_config(TWO, index="one"), "the task is worker 'one', of 2"),
        (tf_config(TWO, "chief"), "the task is chief 0, of 0"),
        (tf_config(TWO, "evaluator"), "the task's type is 'evaluator'"),
        (tf_config(TWO, ["worker"]), r"the task's type is \['worker'\]"),
        (tf_config({"worker": ["a:1"], "ps": ["b:1"]}), "the cluster has ps"),
        (tf_config({"chief": ["a:1", "b:1"]}, "chief"), "it has several chiefs"),
        (tf_config({"worker": ["a:1", "a:1"]}), "a:1 is there twice"),
        (tf_config({"worker": ["a:1"], "chief": ["a:1"]}), "a:1 is there twice"),
        (tf_config({"worker": ["a", "b:1"]}), "'a' is no host:port"),
        (tf_config({"worker": ["a:0", "b:1"]}), "'a:0' is no host:port"),
        (tf_config({"worker": ["a:65536", "b:1"]}), "'a:65536' is no host:port"),
        (tf_config({"worker": ["http://a:1", "b:1"]}), "'http://a:1' is no host:port"),
        (tf_config({"worker": ["a:1", 2]}), "2 is no host:port"),
        (tf_config({"worker": {"0": "a:1", "1": "b:1"}}), "worker is dict"),
        (tf_config({"worker": "a:1,b:1"}), "worker is str"),
        (tf_config(["a:1", "b:1"]), "the cluster is list"),
        (json.dumps({"cluster": TWO}), "the task's type is None"),
        (json.dumps({"cluster": TWO, "task": "worker"}), "the task is str"),
        ("[1]", "the whole is list"),
        ("{", "no JSON"),
        ("{}x", "no JSON"),
        ("[" * 100_000, "brackets in brackets"),
    ],
)
def test_another_tf_config_is_refused(monkeypatch, text, reason):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(
        UserError, match=rf"TF_CONFIG is .* \({reason}\), expected JSON such as"
    ) as e:
        find_cluster()
    assert len(str(e.value).splitlines()) == 1
    assert len(str(e.value)) < 700


SLURM = {
    "SLURM_PROCID": "0",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "n[9-10]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURMD_NODENAME": "n9",
    "SLURM_LOCALID": "0",
}


def test_slurm(monkeypatch):
    """Machines whose names sort otherwise than their numbers: the rank is found by the name."""
    found: dict[str, int] = {}
    for number, (node, local) in enumerate([("n9", 0), ("n9", 1), ("n10", 0), ("n10", 1)]):
        own = {"SLURM_PROCID": number, "SLURMD_NODENAME": node, "SLURM_LOCALID": local}
        for name, value in {**SLURM, **own}.items():
            monkeypatch.setenv(name, str(value))
        cluster = find_cluster()
        assert cluster is not None
        assert is_first() == (number == 0)
        assert sorted(cluster.addresses) == ["n10:12007", "n10:12008", "n9:12007", "n9:12008"]
        found[cluster.addresses[cluster.index]] = cluster.index
        assert cluster.addresses[cluster.index] == f"{node}:{12007 + local}"
    assert sorted(found.values()) == [0, 1, 2, 3]
    # A batch script has the job's variables, but no step's.
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    assert find_cluster() is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_STEP_NUM_TASKS", "many"),
        ("SLURM_LOCALID", None),
        ("SLURM_LOCALID", "9"),
        ("SLURM_STEP_NODELIST", None),
        ("SLURM_STEP_NODELIST", "n[9-"),
        ("SLURM_STEP_TASKS_PER_NODE", "x"),
        ("SLURMD_NODENAME", "elsewhere"),
        ("SLURM_JOB_ID", "seven"),
    ],
)
def test_another_slurm_is_refused(monkeypatch, name, value):
    for key, text in SLURM.items():
        monkeypatch.setenv(key, text)
    monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(UserError, match=r"SLURM_STEP_NUM_TASKS is .* cannot be read .* by srun"):
        find_cluster()
