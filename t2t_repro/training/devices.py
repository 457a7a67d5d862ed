"""Which devices train: every visible GPU, or the CPU."""

import gin
import tensorflow as tf


@gin.configurable
def choose_strategy(cpu_replicas: int = 1) -> tf.distribute.Strategy:
    """Chooses how replicas are laid out.

    All visible GPUs under one MirroredStrategy (CUDA_VISIBLE_DEVICES narrows them); without a GPU
    the CPU, which can be split into logical devices to try out several replicas.

    Args:
        cpu_replicas: how many logical devices the CPU is split into where there is no GPU.

    Returns:
        the strategy; TensorFlow's default one where there is one device only.

    Raises:
        RuntimeError: if TensorFlow's CPU device is in use already when it is to be split.
    """
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if gpus:
        names = [gpu.name for gpu in gpus]
        return tf.distribute.MirroredStrategy(names) if len(names) > 1 else _default()
    if cpu_replicas == 1:
        return _default()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * cpu_replicas
    )
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(cpu_replicas)])


def _default() -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()
