"""The Transformer of "Attention Is All You Need" (2017) in TensorFlow 2 and Keras 3.

The names below are imported when they are first used: `from t2t_repro import Transformer`. Keras
knows the package's classes from `import t2t_repro` on; their modules, too, are imported when the
first `.keras` file asks for one, since TensorFlow's import takes seconds.
"""

import re
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
# The modules of the public names, from the imports in __init__.pyi.
_MODULE_OF = {name: module for module, name in re.findall(r"(?m)^from (\S+) .* as (\w+)$", _STUB)}

__all__ = sorted(_MODULE_OF)

# Classes that their modules register with Keras.
_REGISTERED = (
    "Decoder", "DecoderLayer", "Dense", "Dropout", "Encoder", "EncoderLayer", "FeedForward",
    "FusedAdam", "InverseSquareRoot", "LabelSmoothedCrossEntropy", "LayerNorm",
    "MultiHeadAttention", "PositionalEncoding", "RestrictedSelfAttention", "SharedEmbedding",
    "SSRU", "SublayerConnection", "Transformer", "TransformerSchedule",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use: Python calls this for names that are not here."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _import_modules()
    return getattr(sys.modules[_MODULE_OF[name]], name)


def __dir__() -> list[str]:
    """Lists the public names too, for completion; they may not have been imported yet."""
    return sorted({*globals(), *__all__})


def _import_modules() -> None:
    """Imports the modules of all public names and of all classes that Keras knows."""
    # FusedAdam is not a public name, but it is registered with Keras.
    for module in (*_MODULE_OF.values(), f"{__name__}.model.kernels.adam"):
        import_module(module)


class _Placeholder:
    """A placeholder in Keras's registry for a class whose module has not been imported."""

    def __init__(self, registered_name: str) -> None:
        self._registered_name = registered_name

    def from_config(self, config: dict[str, Any]) -> Any:
        """Makes an object of the class, after an import that puts the class into the registry."""
        _import_modules()
        registry = sys.modules["keras"].saving.get_custom_objects()
        return registry[self._registered_name].from_config(config)


def _register_placeholders() -> None:
    """Puts a placeholder for each class in `_REGISTERED` into Keras's registry."""
    registry = sys.modules["keras"].saving.get_custom_objects()
    # A class whose module has been imported is in the registry already, and stays there.
    for name in _REGISTERED:
        registry.setdefault(f"{__name__}>{name}", _Placeholder(f"{__name__}>{name}"))


class _KerasFinder:
    """An import hook that calls `_register_placeholders` as soon as Keras has been imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Finds Keras, with a loader that registers the placeholders; None for other modules."""
        # Python also passes `path` and `target`; a top-level module such as Keras needs neither.
        spec = PathFinder.find_spec(name) if name == "keras" else None
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_and_register(module: Any) -> None:
                execute(module)
                _register_placeholders()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if sys.modules.get("keras"):
    _register_placeholders()
else:
    sys.meta_path.insert(0, _KerasFinder)
