"""What all tests have in common: devices, their order, and nothing left over from others."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator

import gin
import pytest
from hypothesis import settings

# What XLA compiles in a test runs a few times: LLVM's optimisation is a third of the time it takes.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# TensorFlow's graphs are many objects that live as long as their process. The default thresholds
# would take a tenth of a test's time.
gc.set_threshold(20_000, 10, 10)

# A busy machine is no reason to fail.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


# By the time they take.
LONGEST = """servable task marian_oracle train_step transformer extending mixture files litert
fine_tuning two_processes glossary import one_loss shortlist multilingual packing t2t_oracle"""
FIRST = {f"test_{name}.py": number for number, name in enumerate(LONGEST.split())}


def pytest_configure(config: pytest.Config) -> None:
    """Prepares replicas, but in the process that only deals tests out: importing takes long."""
    if config.getoption("dist", "no") == "no":
        import tests.replicas  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts files: all processes but one would wait for a long file that starts last."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (FIRST.get(item.path.name, len(FIRST)), -tests[item.path]))


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


@pytest.fixture
def eagerly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs functions as Python, which takes less than tracing those that are called once."""
    import tensorflow as tf

    from t2t_repro.decoding.translator import Translator

    def decode(self: Translator, n_best: int, _: bool) -> Callable[..., object]:
        return lambda ids, *prefix: self.search_batch(ids, n_best, *prefix)

    monkeypatch.setattr(Translator, "_decode_graph", decode)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(autouse=True, scope="module")
def no_custom_gradients() -> Iterator[None]:
    """Frees the gradients, with graphs and programs, that TensorFlow registers for good."""
    from tensorflow.python.framework import ops

    yield
    registry = ops.gradient_registry._registry
    if traced := [name for name in registry if name.startswith("CustomGradient-")]:
        for name in traced:
            del registry[name]
        gc.collect()
