"""Which processes train together, as TF_CONFIG or Slurm's `srun` says."""

import json
import os
import re
from dataclasses import dataclass
from typing import Any

from t2t_repro.errors import UserError

_ADDRESS = re.compile(r"(?:\[[\da-fA-F:.%\w]+\]|[^\s:/\[\]]+):(\d{1,5})", re.ASCII)


@dataclass(frozen=True)
class Cluster:
    """Several processes, of which this one is a worker.

    Attributes:
        addresses: host:port of every worker; the first is the chief's.
        index: of this process among them.
    """

    addresses: tuple[str, ...]
    index: int

    def name(self, index: int) -> str:
        """Names a worker, for messages."""
        return f"worker {index} at {self.addresses[index]}"

    def split(self, index: int) -> tuple[str, int]:
        """Returns host and port of a worker."""
        host, _, port = self.addresses[index].rpartition(":")
        return host.strip("[]"), int(port)


def find_cluster() -> Cluster | None:
    """Finds the other processes, if there are any.

    Raises:
        UserError: TF_CONFIG, or what Slurm says, cannot be used.
    """
    if text := os.environ.get("TF_CONFIG"):
        try:
            cluster = _of_tf_config(json.loads(text))
        except RecursionError:
            raise _no_tf_config(text, "brackets in brackets") from None
        except ValueError as error:
            reason = "no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise _no_tf_config(text, reason) from error
    else:
        cluster = _of_slurm()
    return cluster if cluster and len(cluster.addresses) > 1 else None


def is_first() -> bool:
    """Whether this process does what only one of several may do.

    Needs no TensorFlow. With Slurm it need not be the chief.

    Raises:
        UserError: TF_CONFIG cannot be used.
    """
    if os.environ.get("TF_CONFIG"):
        cluster = find_cluster()
        return cluster is None or not cluster.index
    return os.environ.get("SLURM_PROCID", "0") == "0"


def _of_tf_config(config: Any) -> Cluster | None:
    """Reads it.

    Raises:
        ValueError: it is no such thing; why, in words.
    """
    jobs = _part(config, "the whole", {}).get("cluster")
    jobs = _part(jobs, "the cluster", {"chief", "worker"})
    addresses = [*_addresses(jobs, "chief"), *_addresses(jobs, "worker")]
    if not addresses:
        return None
    if len(jobs.get("chief", ())) > 1:
        raise ValueError("it has several chiefs")
    if twice := [one for one in addresses if addresses.count(one) > 1]:
        raise ValueError(f"{twice[0]} is there twice")
    task = _part(config.get("task"), "the task", {})
    kind, index = task.get("type"), task.get("index")
    if kind not in ("chief", "worker"):
        raise ValueError(f"the task's type is {kind!r}")
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    own = _addresses(jobs, kind)
    if type(index) is not int or index not in range(len(own)):
        raise ValueError(f"the task is {kind} {index!r}, of {len(own)}")
    return Cluster(tuple(addresses), addresses.index(own[index]))


def _part(value: Any, name: str, keys: set[str] | dict) -> dict[str, Any]:
    if not isinstance(value or {}, dict):
        raise ValueError(f"{name} is {type(value).__name__}")
    value = value or {}
    if keys and (others := value.keys() - keys):
        raise ValueError(f"{name} has {', '.join(sorted(others))}")
    return value


def _addresses(jobs: dict[str, Any], kind: str) -> list[str]:
    addresses = jobs.get(kind) or []
    if not isinstance(addresses, list):
        raise ValueError(f"{kind} is {type(addresses).__name__}")
    for one in addresses:
        found = _ADDRESS.fullmatch(one) if isinstance(one, str) else None
        if not found or not 0 < int(found[1]) < 2**16:
            raise ValueError(f"{one!r} is no host:port")
    return addresses


def _no_tf_config(text: str, reason: str) -> UserError:
    return UserError(
        f"TF_CONFIG is {text[:300]!r} ({reason[:100]}), expected JSON such as "
        '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", '
        '"index": 0}}, with or without one "chief".'
    )


def _of_slurm() -> Cluster | None:
    """One worker a task of `srun`."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if tasks == "1":
        return None
    import tensorflow as tf

    try:
        # Two jobs may have tasks on one machine.
        port = 12_000 + int(os.environ.get("SLURM_JOB_ID", "0")) % 20_000
        # As many GPUs as tasks, so that it counts none; they are not asked for.
        found = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=port, gpus_per_node=int(tasks), gpus_per_task=1, auto_set_gpu=False
        )
        addresses = tuple(found.cluster_spec().as_dict()["worker"])
        # It sorts machines by name, n10 before n9; Slurm need not.
        own_port = port + int(os.environ["SLURM_LOCALID"])
        return Cluster(addresses, addresses.index(f"{os.environ['SLURMD_NODENAME']}:{own_port}"))
    except (AssertionError, KeyError, IndexError, RuntimeError, ValueError) as error:
        raise UserError(
            f"SLURM_STEP_NUM_TASKS is {tasks[:20]!r}, but what SLURM_STEP_NODELIST and the like "
            f"say cannot be read ({type(error).__name__}: {str(error)[:100]}): start the trainer "
            "by srun, as scripts/cluster/slurm.sh does; alone, with the variable unset."
        ) from error
