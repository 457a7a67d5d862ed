"""The Transformer of "Attention Is All You Need" (2017) in TensorFlow 2 and Keras 3.

The names below are imported when they are first used: `from t2t_repro import Transformer`. Keras
knows the package's classes from `import t2t_repro` on; their modules, too, are imported when the
first `.keras` file asks for one, since TensorFlow's import takes seconds.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

__version__ = "0.2.0"

_NAMES = {
    "decoding.loading": ["load_translator"],
    "decoding.search": ["Translation"],
    "decoding.settings": ["BeamSearch", "MarianSearch", "Sampling", "TranslatorSettings"],
    "decoding.translator": ["Translator"],
    "model.attention": ["MultiHeadAttention"],
    "model.decoder": ["Decoder", "DecoderLayer"],
    "model.embedding": ["SharedEmbedding"],
    "model.encoder": ["Encoder", "EncoderLayer"],
    "model.feed_forward": ["FeedForward"],
    "model.kernels.adam": [],
    "model.keras_model": ["LabelSmoothedCrossEntropy"],
    "model.positional_encoding": ["PositionalEncoding"],
    "model.settings": ["LayerConfig"],
    "model.transformer": ["Transformer"],
    "training.learning_rate": ["InverseSquareRoot", "TransformerSchedule"],
}
"""Public names, by their module; __init__.pyi has them for type checkers."""

__all__ = sorted(name for names in _NAMES.values() for name in names)


_REGISTERED = (
    "Decoder", "DecoderLayer", "Dense", "Dropout", "Encoder", "EncoderLayer", "FeedForward",
    "FusedAdam", "InverseSquareRoot", "LabelSmoothedCrossEntropy", "LayerNorm",
    "MultiHeadAttention", "PositionalEncoding", "RestrictedSelfAttention", "SharedEmbedding",
    "SSRU", "SublayerConnection", "Transformer", "TransformerSchedule",
)  # fmt: skip
"""Classes that their modules register with Keras."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = _import_modules()
    return next(getattr(modules[module], name) for module in _NAMES if name in _NAMES[module])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _import_modules() -> dict[str, Any]:
    return {module: import_module(f"{__name__}.{module}") for module in _NAMES}


class _OnFirstUse:
    """Stands in Keras's registry for a class whose module has not been imported."""

    def __init__(self, registered_name: str) -> None:
        self._registered_name = registered_name

    def from_config(self, config: dict[str, Any]) -> Any:
        """Imports all modules, which puts the class into the registry, and calls the class."""
        _import_modules()
        registry = sys.modules["keras"].saving.get_custom_objects()
        return registry[self._registered_name].from_config(config)


def _register() -> None:
    registry = sys.modules["keras"].saving.get_custom_objects()
    for name in _REGISTERED:
        registry.setdefault(f"{__name__}>{name}", _OnFirstUse(f"{__name__}>{name}"))


class _KerasFinder:
    """Calls `_register` after Keras's import, since Keras asks no package what it registers."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Finds Keras, with a loader that calls `_register`; None for other modules."""
        spec = PathFinder.find_spec(name) if name == "keras" else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_register(module: Any) -> None:
                execute(module)
                _register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if sys.modules.get("keras"):
    _register()
else:
    sys.meta_path.insert(0, _KerasFinder)
