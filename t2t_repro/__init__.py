"""The Transformer of "Attention Is All You Need" (2017) in TensorFlow 2 and Keras 3.

What a Keras program uses is found here: `from t2t_repro import Transformer`. The first name that is
asked for imports TensorFlow and all the classes, so that Keras can load a `.keras` file with any of
them. Where Keras was imported before this package, that is done at once.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t2t_repro.decoding.beam_search import BeamSearch
    from t2t_repro.decoding.translator import Translation, Translator
    from t2t_repro.experiment import load_translator
    from t2t_repro.layers.attention import MultiHeadAttention
    from t2t_repro.layers.decoder import Decoder, DecoderLayer
    from t2t_repro.layers.embedding import SharedEmbedding
    from t2t_repro.layers.encoder import Encoder, EncoderLayer
    from t2t_repro.layers.feed_forward import FeedForward
    from t2t_repro.layers.layer_config import LayerConfig
    from t2t_repro.layers.positional_encoding import PositionalEncoding
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule
    from t2t_repro.training.loss import LabelSmoothedCrossEntropy

__version__ = "0.1.0"

_KERAS = {
    "Decoder": "layers.decoder",
    "DecoderLayer": "layers.decoder",
    "Encoder": "layers.encoder",
    "EncoderLayer": "layers.encoder",
    "FeedForward": "layers.feed_forward",
    "InverseSquareRoot": "training.learning_rate",
    "LabelSmoothedCrossEntropy": "training.loss",
    "LayerConfig": "layers.layer_config",
    "MultiHeadAttention": "layers.attention",
    "PositionalEncoding": "layers.positional_encoding",
    "SharedEmbedding": "layers.embedding",
    "Transformer": "models.transformer",
    "TransformerSchedule": "training.learning_rate",
}
"""Where the classes are that a Keras file may hold, or needs."""

_TRANSLATION = {
    "BeamSearch": "decoding.beam_search",
    "Translation": "decoding.translator",
    "Translator": "decoding.translator",
    "load_translator": "experiment",
}

__all__ = [
    "BeamSearch",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "InverseSquareRoot",
    "LabelSmoothedCrossEntropy",
    "LayerConfig",
    "MultiHeadAttention",
    "PositionalEncoding",
    "SharedEmbedding",
    "Transformer",
    "TransformerSchedule",
    "Translation",
    "Translator",
    "load_translator",
]


def __getattr__(name: str) -> Any:
    places = _KERAS | _TRANSLATION
    if name not in places:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _register()
    return getattr(import_module(f"{__name__}.{places[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _register() -> None:
    """Imports the classes, each of which makes itself known to Keras."""
    for module in dict.fromkeys(_KERAS.values()):
        import_module(f"{__name__}.{module}")


if "keras" in sys.modules:
    _register()
