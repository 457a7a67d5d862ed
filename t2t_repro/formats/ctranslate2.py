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
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec
from keras import ops
from numpy.typing import NDArray

from t2t_repro.decoding.translator import Translator
from t2t_repro.files import whole_directory
from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.layer_norm import LayerNorm
from t2t_repro.runs.weights import check_exportable, logits_bias
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

Spec = Any
"""A part of CTranslate2's specification of a model; the package has no types."""

_ACTIVATIONS = {
    "gelu": Activation.GELU, "relu": Activation.RELU, "sigmoid": Activation.Sigmoid,
    "silu": Activation.SWISH, "swish": Activation.SWISH, "tanh": Activation.Tanh,
}  # fmt: skip
"""CTranslate2's activations, by Keras's names."""

_NEVER = -1e9
"""The logit of an id that is never written."""


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
    spec = _specification(translator)
    # One model, where both sides share it.
    models = [side.sentencepiece() for side in dict.fromkeys(translator.subwords)]
    files = dict(zip(translator.subwords.files(), models, strict=True))
    spec.validate()
    spec.optimize(quantization=weights)
    with whole_directory(export_dir) as partial:
        spec.save(str(partial))
        for name, content in files.items():
            (partial / name).write_bytes(content)


def _specification(translator: Translator) -> Spec:
    """Returns CTranslate2's specification of a model, with weights and vocabularies."""
    model, layer = translator.model, translator.model.config
    supported = {
        "neighbourhood": (model.neighbourhood, [None]),
        "activation": (layer.activation, sorted(_ACTIVATIONS)),
        "norm": (layer.norm, ["LayerNorm"]),
    }
    check_exportable(model, "CTranslate2", supported)
    sizes = {
        "num_heads": layer.num_heads,
        "pre_norm": layer.normalization == "pre",
        # The only depth of heads: the smaller of d_k and d_v is padded with zeros.
        "head_dim": max(layer.key_depth, layer.value_depth),
        "activation": _ACTIVATIONS[layer.activation],
    }
    encoder = TransformerEncoderSpec(model.num_layers, **sizes)
    decoder = TransformerDecoderSpec(model.num_decoder_layers, **sizes)
    encoder.embeddings[0].weight = model.source_embedding.looked_up()
    decoder.embeddings.weight = model.embedding.looked_up()
    decoder.projection.weight = np.array(model.softmax.table)
    if translator.forbidden or model.logits_bias is not None:
        # The only way in which a CTranslate2 model can forbid ids.
        bias = logits_bias(model)
        bias[[*translator.forbidden]] = _NEVER
        decoder.projection.bias = bias
    # Its default of max_input_length, at least.
    longest_source = max(translator.max_source_length, 1024)
    positions = max(longest_source, translator.max_target_length(longest_source))
    for spec, stack, encoding in (
        (encoder, model.encoder, model.positional_encoding),
        (decoder, model.decoder, model.target_positional_encoding),
    ):
        # All learned ones, or as many as sources and targets need.
        places = ops.arange(encoding.max_length or positions)
        spec.position_encodings.encodings = np.array(encoding.encode(places))
        for layer_spec, ours in zip(spec.layer, stack.layers, strict=True):
            _fill_layer(layer_spec, ours, sizes["head_dim"])
        if stack.final_norm:
            _fill_norm(spec.layer_norm, stack.final_norm)
    spec = TransformerSpec(encoder, decoder)
    _fill_texts(spec, translator)
    return spec


def _fill_texts(spec: Spec, translator: Translator) -> None:
    """Sets the token of every id, and the special tokens."""
    source, target = translator.subwords.each(lambda side: side.pieces())
    model, unknown = translator.model, [target[UNK_ID]]
    # Rows beyond the vocabulary count as UNK, as in `SentencePieceModel.decode`.
    spec.register_source_vocabulary(source + unknown * (model.source_vocab_size - len(source)))
    spec.register_target_vocabulary(target + unknown * (model.vocab_size - len(target)))
    spec.config.unk_token = target[UNK_ID]
    spec.config.eos_token = target[EOS_ID]
    spec.config.bos_token = spec.config.decoder_start_token = target[PAD_ID]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.config.norm_epsilon


def _fill_layer(spec: Spec, layer: Any, head_depth: int) -> None:
    _fill_attention(spec.self_attention, layer.self_attention, head_depth)
    _fill_norm(spec.self_attention.layer_norm, layer.around_self_attention.norm)
    if hasattr(layer, "memory_attention"):
        _fill_attention(spec.attention, layer.memory_attention, head_depth)
        _fill_norm(spec.attention.layer_norm, layer.around_memory_attention.norm)
    ffn, network = spec.ffn, layer.feed_forward
    for linear, dense in ((ffn.linear_0, network.inner), (ffn.linear_1, network.outer)):
        linear.weight, linear.bias = np.array(dense.kernel).T, np.array(dense.bias)
    _fill_norm(ffn.layer_norm, layer.around_feed_forward.norm)


def _fill_attention(spec: Spec, attention: MultiHeadAttention, head_depth: int) -> None:
    def padded(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """[heads·depth, ...] → the same, each head padded with zeros to the common depth."""
        heads = rows.reshape(attention.num_heads, -1, *rows.shape[1:])
        missing = [(0, 0), (0, head_depth - heads.shape[1]), *[(0, 0)] * (heads.ndim - 2)]
        return np.pad(heads, missing).reshape(-1, *rows.shape[1:])

    parts = [attention.query_projection, attention.key_projection, attention.value_projection]
    # Self-attention has one matrix for Q, K and V; attention to the source one for K and V.
    is_self = len(spec.linear) == 2
    products = [parts] if is_self else [parts[:1], parts[1:]]
    for linear, joined in zip(spec.linear, products, strict=False):
        linear.weight = np.concatenate([padded(np.array(part.kernel).T) for part in joined])
        if attention.use_bias:
            linear.bias = np.concatenate([padded(np.array(part.bias)) for part in joined])
    output = attention.output_projection
    spec.linear[-1].weight = padded(np.array(output.kernel)).T
    if attention.use_bias:
        spec.linear[-1].bias = np.array(output.bias)
    spec.queries_scale = attention.d_k**-0.5


def _fill_norm(spec: Spec, norm: LayerNorm) -> None:
    spec.gamma, spec.beta = np.array(norm.gamma), np.array(norm.beta)
