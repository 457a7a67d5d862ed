"""The Transformer of "Attention Is All You Need" (2017) in TensorFlow 2 and Keras 3.

What a Keras program uses is found here: `from t2t_repro import Transformer`. The first name that is
asked for imports TensorFlow and all the classes, so that Keras can load a `.keras` file with any of
them. Where Keras is imported before or after this package, that is done then.
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t2t_repro.decoding.beam_search import BeamSearch
    from t2t_repro.decoding.sampling import Sampling
    from t2t_repro.decoding.search import Translation
    from t2t_repro.decoding.translator import Translator, TranslatorSettings
    from t2t_repro.experiment import load_translator
    from t2t_repro.model.attention import MultiHeadAttention
    from t2t_repro.model.decoder import Decoder, DecoderLayer
    from t2t_repro.model.embedding import SharedEmbedding
    from t2t_repro.model.encoder import Encoder, EncoderLayer
    from t2t_repro.model.feed_forward import FeedForward
    from t2t_repro.model.layer_config import LayerConfig
    from t2t_repro.model.loss import LabelSmoothedCrossEntropy
    from t2t_repro.model.positional_encoding import PositionalEncoding
    from t2t_repro.model.transformer import Transformer
    from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule

__version__ = "0.1.0"

_KERAS = {
    "Decoder": "model.decoder",
    "DecoderLayer": "model.decoder",
    "Encoder": "model.encoder",
    "EncoderLayer": "model.encoder",
    "FeedForward": "model.feed_forward",
    "InverseSquareRoot": "training.learning_rate",
    "LabelSmoothedCrossEntropy": "model.loss",
    "LayerConfig": "model.layer_config",
    "MultiHeadAttention": "model.attention",
    "PositionalEncoding": "model.positional_encoding",
    "SharedEmbedding": "model.embedding",
    "Transformer": "model.transformer",
    "TransformerSchedule": "training.learning_rate",
}
"""Where the classes are that a Keras file may hold, or needs."""

_TRANSLATION = {
    "BeamSearch": "decoding.beam_search",
    "Sampling": "decoding.sampling",
    "Translation": "decoding.search",
    "Translator": "decoding.translator",
    "TranslatorSettings": "decoding.translator",
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
    "Sampling",
    "SharedEmbedding",
    "Transformer",
    "TransformerSchedule",
    "Translation",
    "Translator",
    "TranslatorSettings",
    "load_translator",
]


if not TYPE_CHECKING:
    # A type checker has the imports above; with this it would take any name for one.
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


class _RegisteringWithKeras(MetaPathFinder):
    """Has the classes registered once somebody else imports Keras.

    Keras looks for a class of ours among what is registered, and imports no module for it. What
    imports Keras within this package registers its own classes, and comes too early for others.
    """

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """Finds nothing but Keras, by the other finders."""
        if fullname != "keras":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        # Who asks may not import it yet.
        sys.meta_path.insert(0, self)
        is_our_import = any(name.startswith(f"{__name__}.") for name in sys.modules)
        if spec and spec.loader and not is_our_import:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                sys.meta_path.remove(self)
                load(module)
                _register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec


if "keras" in sys.modules:
    _register()
else:
    sys.meta_path.insert(0, _RegisteringWithKeras())
