"""Chooses the devices of a process: every visible GPU, or the CPU; with XLA or without."""

from typing import Annotated

import gin
import tensorflow as tf

from t2t_repro.config.values import Range, validated

Replicas = Annotated[int, Range(least=1, most=256)]


@gin.configurable
@validated
def choose_strategy(cpu_replicas: Replicas = 1) -> tf.distribute.Strategy:
    """Chooses the strategy of a single worker; several have `Workers.strategy`.

    It has a replica per visible GPU (see CUDA_VISIBLE_DEVICES). Without a GPU it has the CPU, which
    can be split into logical devices to try out several replicas.

    Args:
        cpu_replicas: number of logical devices that the CPU is split into.

    Returns:
        a MirroredStrategy; TensorFlow's default one for a single device.

    Raises:
        RuntimeError: TensorFlow has computed already when the CPU is to be split.
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
    """Returns whether XLA compiles the forward and backward pass.

    Args:
        jit_compile: None means on GPUs only; on a CPU XLA is slower than oneDNN.
    """
    if jit_compile is None:
        return bool(tf.config.list_logical_devices("GPU"))
    return jit_compile


def own_replicas(strategy: tf.distribute.Strategy) -> range:
    """Returns the numbers of this process's replicas among those of all workers."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return range(strategy.num_replicas_in_sync)
    resolver = strategy.cluster_resolver
    share = strategy.num_replicas_in_sync // resolver.cluster_spec().num_tasks("worker")
    return range(resolver.task_id * share, (resolver.task_id + 1) * share)
