"""Which devices train: every visible GPU, or the CPU; of one machine, or of several."""

import os
from typing import Annotated, TypeAlias

import gin
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.ranges import Range, checked

_Resolver: TypeAlias = tf.distribute.cluster_resolver.ClusterResolver

Replicas = Annotated[int, Range(least=1, most=256)]


@gin.configurable
@checked
def choose_strategy(
    cpu_replicas: Replicas = 1,
) -> tf.distribute.Strategy:
    """Chooses how replicas are laid out.

    All visible GPUs under one MirroredStrategy (CUDA_VISIBLE_DEVICES narrows them); without a GPU
    the CPU, which can be split into logical devices to try out several replicas.

    Where TF_CONFIG or Slurm's `srun` says that this process is one of several, all GPUs of all
    of them under one MultiWorkerMirroredStrategy, or the CPU of each.

    Args:
        cpu_replicas: how many logical devices the CPU is split into where there is no GPU, and
            one process.

    Returns:
        the strategy; TensorFlow's default one where there is one device only.

    Raises:
        RuntimeError: if TensorFlow has computed already when the CPU is to be split, or other
            processes are to be reached.
        UserError: TF_CONFIG is none.
    """
    resolver = _cluster()
    if resolver:
        # It says at length, on every worker, what is said of the run elsewhere.
        tf.get_logger().setLevel("WARNING")
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if len(gpus) > 1:
        return tf.distribute.MirroredStrategy([gpu.name for gpu in gpus])
    if gpus or cpu_replicas == 1:
        return tf.distribute.get_strategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * cpu_replicas
    )
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(cpu_replicas)])


@gin.configurable
@checked
def use_xla(jit_compile: bool | None = None) -> bool:
    """Whether XLA compiles forward and backward pass.

    Args:
        jit_compile: None means on GPUs only. (On a CPU XLA is slower than oneDNN.)
    """
    if jit_compile is None:
        return bool(tf.config.list_logical_devices("GPU"))
    return jit_compile


def is_chief() -> bool:
    """Whether this process writes the model directory; to be asked before TensorFlow computes."""
    resolver = _cluster()
    if not resolver:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return bool((resolver.task_type, resolver.task_id) == (first, 0))


def _cluster() -> _Resolver | None:
    """Finds the other processes, if there are any."""
    if os.environ.get("TF_CONFIG"):
        resolver = _cluster_of_tf_config()
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        resolver = _cluster_of_slurm()
    else:
        return None
    processes = sum(map(len, resolver.cluster_spec().as_dict().values()))
    return resolver if processes > 1 else None


def _cluster_of_tf_config() -> _Resolver:
    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        jobs = resolver.cluster_spec().as_dict()
        is_usable = not set(jobs) - {"chief", "worker"} and len(jobs.get("chief", ())) < 2
        if jobs and resolver.task_id not in range(len(jobs[resolver.task_type])):
            is_usable = False
    except (AttributeError, KeyError, TypeError, ValueError):
        is_usable = False
    if not is_usable:
        raise UserError(
            f"TF_CONFIG is {os.environ['TF_CONFIG'][:200]!r}, expected JSON such as "
            '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", '
            '"index": 0}}, with or without one "chief".'
        )
    return resolver


def _cluster_of_slurm() -> _Resolver:
    """One worker a task of `srun`; each has all the GPUs that it sees."""
    gpus, tasks = len(tf.config.list_physical_devices("GPU")), os.environ["SLURM_STEP_NUM_TASKS"]
    share = max(gpus, 1)
    # Two jobs may have tasks on one machine.
    port = 12_000 + int(os.environ.get("SLURM_JOB_ID", "0")) % 20_000
    found = tf.distribute.cluster_resolver.SlurmClusterResolver(
        port_base=port, gpus_per_node=share * int(tasks), gpus_per_task=share, auto_set_gpu=False
    )
    spec = found.cluster_spec()
    # It sorts machines by name, n10 before n9; Slurm need not.
    own_port = port + int(os.environ["SLURM_LOCALID"])
    number = spec.as_dict()["worker"].index(f"{os.environ['SLURMD_NODENAME']}:{own_port}")
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec,
        task_type="worker",
        task_id=number,
        rpc_layer="grpc",
        num_accelerators={"GPU": gpus},
    )
