"""Exports a trained model as a directory of CTranslate2, an engine in C++.

export_dir/
  model.bin                the weights
  config.json              the special tokens
  shared_vocabulary.json   the token of every id; or source_ and target_vocabulary.json
  subwords.model           SentencePiece's; or one for each side, see `text.subword_model`

CTranslate2's log-probabilities are ours. With a beam of 1 its ids are ours too, with
`min_decoding_length=0` and as long as no limit cuts them off. (Its default of 1 forbids the empty
translation. Its `max_decoding_length` is the same for all sentences; ours grows with the source.)
With a wider beam its search differs:

- it divides by length^α, EOS not counted, instead of ((5 + length) / 6)^α, EOS counted, or of
  another penalty that is bound; it has no word penalty;
- it stops at beam_size finished hypotheses (times its `patience`), or with α = 0 when the best
  candidate is finished; ours goes on while a better one is possible;
- it keeps candidates that end among the best beam_size, ours among 2·beam_size;
- hypotheses that reach the limit unfinished compete with finished ones, ours only where there is
  no finished one.

Ids that are forbidden have no probability here; the others share it.

So with α = 0 and no limit reached, scores of equal ids are equal, and none of its translations
scores higher than ours. With α > 0 scores mean different things.
"""

from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.converters import Converter
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec
from keras import ops
from numpy.typing import NDArray

from t2t_repro.decoding.translator import Translator
from t2t_repro.files import whole_directory
from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.layer_norm import LayerNorm
from t2t_repro.model.positional_encoding import PositionalEncoding
from t2t_repro.model.sublayer import SublayerConnection
from t2t_repro.runs.weights import check_exportable
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

Spec = Any
"""A part of CTranslate2's specification of a model; the package has no types."""

_ACTIVATIONS = {
    "gelu": Activation.GELU,
    "relu": Activation.RELU,
    "sigmoid": Activation.Sigmoid,
    "silu": Activation.SWISH,
    "swish": Activation.SWISH,
    "tanh": Activation.Tanh,
}
"""CTranslate2's activations, by Keras's names."""

_NEVER = -1e9
"""The logit of an id that is never written."""

_MAX_INPUT_LENGTH = 1024
"""CTranslate2's default."""


def write_ctranslate2_model(translator: Translator, weights: str, export_dir: Path) -> None:
    """Writes a model directory of CTranslate2, whole or not at all.

    Args:
        translator: its model, in float32, its subwords and its limits are used; not its search.
        weights: "float32" or "int8", CTranslate2's own, with a scale for each row.
        export_dir: the directory to make.

    Raises:
        UserError: CTranslate2 cannot express the model.
        OSError: the directory is not empty, or cannot be written.
    """
    converter = _TransformerConverter(translator)
    # One model, where both sides share it.
    models = [side.sentencepiece() for side in dict.fromkeys(translator.subwords)]
    files = dict(zip(translator.subwords.files(), models, strict=True))
    with whole_directory(export_dir) as partial:
        # The directory exists, and is empty.
        converter.convert(str(partial), quantization=weights, force=True)
        for name, content in files.items():
            (partial / name).write_bytes(content)


class _TransformerConverter(Converter):
    """Describes a translator's model to CTranslate2.

    Args:
        translator: see `write_ctranslate2_model`.

    Raises:
        UserError: CTranslate2 cannot express the model.
    """

    def __init__(self, translator: Translator) -> None:
        self._model = model = translator.model
        # CTranslate2 has one depth of heads: the smaller of d_k and d_v is padded with zeros.
        self._head_depth = max(model.config.key_depth, model.config.value_depth)
        self._pieces = translator.subwords.each(lambda side: side.pieces())
        supported = {
            "neighbourhood": (model.neighbourhood, [None]),
            "activation": (model.config.activation, sorted(_ACTIVATIONS)),
            "norm": (model.config.norm, ["LayerNorm"]),
        }
        check_exportable(model, "CTranslate2", supported)
        self._forbidden = translator.forbidden
        longest_source = max(translator.max_source_length, _MAX_INPUT_LENGTH)
        self._positions = max(longest_source, translator.limit(longest_source))

    def _load(self) -> Spec:
        """Returns the specification of the model, with its weights."""
        model, layer = self._model, self._model.config
        sizes = {
            "num_heads": layer.num_heads,
            "pre_norm": layer.normalization == "pre",
            "head_dim": self._head_depth,
            "activation": _ACTIVATIONS[layer.activation],
        }
        encoder = TransformerEncoderSpec(model.num_layers, **sizes)
        decoder = TransformerDecoderSpec(model.num_decoder_layers, **sizes)
        encoder.embeddings[0].weight = model.source_embedding.looked_up()
        decoder.embeddings.weight = model.embedding.looked_up()
        decoder.projection.weight = np.array(model.softmax.table)
        if self._forbidden or model.logits_bias is not None:
            decoder.projection.bias = self._logits_bias()
        encoder.position_encodings.encodings = self._encodings(model.positional_encoding)
        decoder.position_encodings.encodings = self._encodings(model.target_positional_encoding)
        for spec, stack in ((encoder, model.encoder), (decoder, model.decoder)):
            for layer_spec, one in zip(spec.layer, stack.layers, strict=True):
                self._fill_layer(layer_spec, one)
            if stack.final_norm:
                _fill_norm(spec.layer_norm, stack.final_norm)
        spec = TransformerSpec(encoder, decoder)
        self._fill_texts(spec)
        return spec

    def _logits_bias(self) -> NDArray[np.float32]:
        """[vocab]; the only way in which a CTranslate2 model can forbid ids."""
        model = self._model
        bias = np.zeros(model.vocab_size, np.float32)
        if model.logits_bias is not None:
            bias = np.array(model.logits_bias)
        bias[[*self._forbidden]] = _NEVER
        return bias

    def _encodings(self, encoding: PositionalEncoding) -> NDArray[np.float32]:
        """[positions, d_model]: all learned ones, or as many as sources and targets need."""
        positions = ops.arange(encoding.max_length or self._positions)
        return np.array(encoding.encode(positions))

    def _fill_layer(self, spec: Spec, layer: Any) -> None:
        self._fill_attention(spec.self_attention, layer.self_attention, layer.around_self_attention)
        if hasattr(layer, "memory_attention"):
            self._fill_attention(
                spec.attention, layer.memory_attention, layer.around_memory_attention
            )
        ffn, network = spec.ffn, layer.feed_forward
        for linear, dense in ((ffn.linear_0, network.inner), (ffn.linear_1, network.outer)):
            linear.weight, linear.bias = np.array(dense.kernel).T, np.array(dense.bias)
        _fill_norm(spec.ffn.layer_norm, layer.around_feed_forward.norm)

    def _fill_attention(
        self, spec: Spec, attention: MultiHeadAttention, around: SublayerConnection
    ) -> None:
        layers = (
            attention.query_projection, attention.key_projection, attention.value_projection,
        )  # fmt: skip
        # Self-attention has one matrix for Q, K and V; attention to the source one for K and V.
        is_self = len(spec.linear) == 2
        products = [layers] if is_self else [layers[:1], layers[1:]]
        for linear, parts in zip(spec.linear, products, strict=False):
            linear.weight = np.concatenate([self._of_heads(np.array(d.kernel).T) for d in parts])
            if attention.use_bias:
                biases = [self._of_heads(np.array(d.bias)[:, None])[:, 0] for d in parts]
                linear.bias = np.concatenate(biases)
        output = attention.output_projection
        spec.linear[-1].weight = self._of_heads(np.array(output.kernel)).T
        if attention.use_bias:
            spec.linear[-1].bias = np.array(output.bias)
        spec.queries_scale = attention.d_k**-0.5
        _fill_norm(spec.layer_norm, around.norm)

    def _of_heads(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """[heads·depth, width] → the same, each head padded with zeros to the common depth."""
        heads = rows.reshape(self._model.config.num_heads, -1, rows.shape[1])
        missing = self._head_depth - heads.shape[1]
        return np.pad(heads, ((0, 0), (0, missing), (0, 0))).reshape(-1, heads.shape[2])

    def _fill_texts(self, spec: Spec) -> None:
        """Sets the token of every id, and the special tokens."""
        source, tokens = self._pieces
        # Rows beyond the vocabulary count as UNK, as in `SentencePieceModel.decode`.
        unknown = [tokens[UNK_ID]]
        spec.register_source_vocabulary(
            source + unknown * (self._model.source_vocab_size - len(source))
        )
        spec.register_target_vocabulary(tokens + unknown * (self._model.vocab_size - len(tokens)))
        spec.config.unk_token = tokens[UNK_ID]
        spec.config.eos_token = tokens[EOS_ID]
        spec.config.bos_token = spec.config.decoder_start_token = tokens[PAD_ID]
        spec.config.add_source_eos = True
        spec.config.layer_norm_epsilon = self._model.config.norm_epsilon


def _fill_norm(spec: Spec, norm: LayerNorm) -> None:
    spec.gamma, spec.beta = np.array(norm.gamma), np.array(norm.beta)
