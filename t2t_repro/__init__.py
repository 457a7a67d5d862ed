"""The Transformer of "Attention Is All You Need" (2017) in TensorFlow 2 and Keras 3.

The names below are imported when they are first used: `from t2t_repro import Transformer`. The
first one registers all classes with Keras: import one before you load a `.keras` file.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_NAMES = {
    "decoding.beam_search": ["BeamSearch"],
    "decoding.loading": ["load_translator"],
    "decoding.marian_search": ["MarianSearch"],
    "decoding.sampling": ["Sampling"],
    "decoding.search": ["Translation"],
    "decoding.translator": ["Translator", "TranslatorSettings"],
    "model.attention": ["MultiHeadAttention"],
    "model.decoder": ["Decoder", "DecoderLayer"],
    "model.embedding": ["SharedEmbedding"],
    "model.encoder": ["Encoder", "EncoderLayer"],
    "model.feed_forward": ["FeedForward"],
    "model.layer_config": ["LayerConfig"],
    "model.loss": ["LabelSmoothedCrossEntropy"],
    "model.positional_encoding": ["PositionalEncoding"],
    "model.transformer": ["Transformer"],
    "training.learning_rate": ["InverseSquareRoot", "TransformerSchedule"],
}
"""Public names, by their module; __init__.pyi has them for type checkers."""

__all__ = sorted(name for names in _NAMES.values() for name in names)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {module: import_module(f"{__name__}.{module}") for module in _NAMES}
    return next(getattr(modules[module], name) for module in _NAMES if name in _NAMES[module])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
