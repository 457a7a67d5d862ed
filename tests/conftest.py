"""One TensorFlow process for all tests, with devices enough to try out several replicas."""

import gc
import os
from collections import Counter
from collections.abc import Iterator

import gin
import pytest
import tensorflow as tf
from hypothesis import settings
from tensorflow.python.framework import ops

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 8
)

# What XLA compiles in a test runs a few times: LLVM's optimisation is a third of the time it takes.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# TensorFlow's graphs are many objects that live as long as their process. The default thresholds
# would take a tenth of a test's time.
gc.set_threshold(20_000, 10, 10)

# A busy machine is no reason to fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts files: all processes but one would wait for a long file that starts last."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (not item.get_closest_marker("long"), -tests[item.path]))


def pytest_collection_finish() -> None:
    """Takes what was imported out of garbage collection: it stays."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_bindings() -> Iterator[None]:
    """Clears gin's bindings, which are global, around every test."""
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture(autouse=True, scope="module")
def no_custom_gradients() -> Iterator[None]:
    """Frees the gradients, with graphs and programs, that TensorFlow registers for good."""
    yield
    registry = ops.gradient_registry._registry
    if traced := [name for name in registry if name.startswith("CustomGradient-")]:
        for name in traced:
            del registry[name]
        gc.collect()
