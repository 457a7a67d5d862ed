"""Which devices of a process train: every visible GPU, or the CPU."""

from typing import Annotated

import gin
import tensorflow as tf

from t2t_repro.config.values import Range, validated

Replicas = Annotated[int, Range(least=1, most=256)]


@gin.configurable
@validated
def choose_strategy(cpu_replicas: Replicas = 1) -> tf.distribute.Strategy:
    """Chooses how replicas are laid out.

    All visible GPUs under one MirroredStrategy (CUDA_VISIBLE_DEVICES narrows them); without a GPU
    the CPU, which can be split into logical devices to try out several replicas.

    Several workers have a strategy of their own, see `Workers.strategy`.

    Args:
        cpu_replicas: how many logical devices the CPU is split into where there is no GPU, and
            one process.

    Returns:
        the strategy; TensorFlow's default one where there is one device only.

    Raises:
        RuntimeError: if TensorFlow has computed already when the CPU is to be split.
    """
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
@validated
def use_xla(jit_compile: bool | None = None) -> bool:
    """Whether XLA compiles forward and backward pass.

    Args:
        jit_compile: None means on GPUs only. (On a CPU XLA is slower than oneDNN.)
    """
    if jit_compile is None:
        return bool(tf.config.list_logical_devices("GPU"))
    return jit_compile


def own_replicas(strategy: tf.distribute.Strategy) -> range:
    """Returns the replicas of this process, as numbers among those of all workers."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return range(strategy.num_replicas_in_sync)
    resolver = strategy.cluster_resolver
    share = strategy.num_replicas_in_sync // resolver.cluster_spec().num_tasks("worker")
    return range(resolver.task_id * share, (resolver.task_id + 1) * share)
