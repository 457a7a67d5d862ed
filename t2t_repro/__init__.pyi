"""The public names of the package, for type checkers; __init__.py imports them on first use."""

from t2t_repro.decoding.loading import load_translator as load_translator
from t2t_repro.decoding.search import Translation as Translation
from t2t_repro.decoding.settings import BeamSearch as BeamSearch
from t2t_repro.decoding.settings import MarianSearch as MarianSearch
from t2t_repro.decoding.settings import Sampling as Sampling
from t2t_repro.decoding.settings import TranslatorSettings as TranslatorSettings
from t2t_repro.decoding.translator import Translator as Translator
from t2t_repro.model.attention import MultiHeadAttention as MultiHeadAttention
from t2t_repro.model.decoder import Decoder as Decoder
from t2t_repro.model.decoder import DecoderLayer as DecoderLayer
from t2t_repro.model.embedding import SharedEmbedding as SharedEmbedding
from t2t_repro.model.encoder import Encoder as Encoder
from t2t_repro.model.encoder import EncoderLayer as EncoderLayer
from t2t_repro.model.feed_forward import FeedForward as FeedForward
from t2t_repro.model.keras_model import LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy
from t2t_repro.model.positional_encoding import PositionalEncoding as PositionalEncoding
from t2t_repro.model.settings import LayerConfig as LayerConfig
from t2t_repro.model.transformer import Transformer as Transformer
from t2t_repro.training.learning_rate import InverseSquareRoot as InverseSquareRoot
from t2t_repro.training.learning_rate import TransformerSchedule as TransformerSchedule

__version__: str
__all__: list[str]
