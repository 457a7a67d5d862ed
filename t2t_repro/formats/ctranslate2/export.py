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

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.model_spec import index_spec
from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec
from keras import ops

from t2t_repro.decoding.translator import Translator
from t2t_repro.files import whole_directory
from t2t_repro.formats.ctranslate2 import layout
from t2t_repro.formats.imported import Array
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight, check_exportable, layer_weights, logits_bias
from t2t_repro.text.marian import MarianSubwords
from t2t_repro.text.subword_model import SubwordModel
from t2t_repro.vocabulary import EOS_ID, UNK_ID

# A part of CTranslate2's specification of a model; the package has no types.
Spec = Any

# The logit of an id that is never written.
_NEVER = -1e9


def write_ctranslate2_model(translator: Translator, weights: str, export_dir: Path) -> None:
    """Writes a model directory of CTranslate2, whole or not at all.

    Args:
        translator: its model, in float32, its subwords and its limits are used; not its search.
        weights: "float32", or "int8" with a scale for each row, as CTranslate2 quantizes.
        export_dir: the directory to make.

    Raises:
        UserError: CTranslate2 cannot express the model.
        OSError: the directory is not empty, or cannot be written.
    """
    spec = _specification(translator)
    # There is one name if both sides share a model: then `zip` leaves the second side out.
    sides = zip(translator.subwords.files(), translator.subwords, strict=False)
    files = {name: side.sentencepiece() for name, side in sides if not _has_words(side)}
    spec.validate()
    spec.optimize(quantization=weights)
    with whole_directory(export_dir) as partial:
        spec.save(str(partial))
        for name, content in files.items():
            (partial / name).write_bytes(content)


def _specification(translator: Translator) -> Spec:
    """Returns CTranslate2's specification of a model, with weights and vocabularies.

    Raises:
        UserError: CTranslate2 cannot express the model.
    """
    model, layer = translator.model, translator.model.config
    supported = {
        "LayerConfig.activation": (layer.activation, sorted(layout.ACTIVATIONS)),
        # Other engines lack these settings and CTranslate2 has them. In place of the model's value,
        # which may be any, a 0 is compared with 0.
        **{f"Transformer.{key}": (0, [0]) for key in ("start_id", "first_position", "source_eos")},
    }
    check_exportable(model, "CTranslate2", supported)
    sizes = {
        "num_heads": layer.num_heads,
        "pre_norm": layer.normalization == "pre",
        # One depth for d_k and d_v: heads of the smaller one are padded with zeros.
        "head_dim": max(layer.key_depth, layer.value_depth),
        "activation": layout.ACTIVATIONS[layer.activation],
    }
    encoder = TransformerEncoderSpec(model.num_layers, **sizes)
    decoder = TransformerDecoderSpec(model.num_decoder_layers, **sizes)
    spec = TransformerSpec(encoder, decoder)
    for name, value in {**_layers(model), **_tables(translator)}.items():
        scope, _, attribute = name.rpartition("/")
        setattr(index_spec(spec, scope), attribute, value)
    source, target = translator.subwords.each(lambda side: side.pieces())
    # Rows beyond the vocabulary count as UNK, as in `SentencePieceModel.decode`.
    unknown = [target[UNK_ID]]
    spec.register_source_vocabulary(source + unknown * (model.source_vocab_size - len(source)))
    spec.register_target_vocabulary(target + unknown * (model.vocab_size - len(target)))
    spec.config.unk_token = target[UNK_ID]
    spec.config.eos_token = target[EOS_ID]
    spec.config.bos_token = spec.config.decoder_start_token = target[model.settings.start_id]
    spec.config.add_source_eos = model.settings.source_eos
    spec.config.layer_norm_epsilon = layer.norm_epsilon
    return spec


def _tables(translator: Translator) -> dict[str, Array]:
    """Returns embeddings, softmax and positions, by CTranslate2's names.

    They are [ids or positions, d_model]. The softmax has a bias, [ids], if the model has one, or if
    there are ids that translations must not have.
    """
    model = translator.model
    tables = {
        layout.SOURCE: model.source_embedding.looked_up(),
        layout.TARGET: model.embedding.looked_up(),
        layout.SOFTMAX: np.array(model.softmax.table),
    }
    if translator.forbidden or model.logits_bias is not None:
        # The only way in which a CTranslate2 model can forbid ids.
        tables[layout.LOGITS_BIAS] = logits_bias(model)
        tables[layout.LOGITS_BIAS][[*translator.forbidden]] = _NEVER
    # At least CTranslate2's default of max_input_length.
    longest_source = max(translator.max_source_length, 1024)
    positions = max(longest_source, translator.max_target_length(longest_source))
    encodings = model.positional_encoding, model.target_positional_encoding
    for name, encoding in zip(layout.POSITIONS, encodings, strict=True):
        # All learned positions, or as many sinusoids as sources and targets need.
        tables[name] = np.array(encoding.encode(ops.arange(encoding.max_length or positions)))
    return tables


def _layers(model: Transformer) -> dict[str, Any]:
    """Returns all layers' weights, and queries' scales, by CTranslate2's names.

    Weights that CTranslate2 stores as one matrix, such as those of query, key and value, are joined
    one below the other.
    """
    # By the name of the matrix: its parts by their index in it.
    matrices: dict[str, dict[int, Array]] = defaultdict(dict)
    tensors: dict[str, Any] = {}
    for weight in layer_weights(model):
        name, index, _ = layout.place_of(weight)
        matrices[name][index] = _with_common_depth(weight, model.config)
        if weight.part == "query":
            # Otherwise CTranslate2 takes the depth of the padded heads.
            tensors[layout.scale_of(weight)] = model.config.key_depth**-0.5
    for name, parts in matrices.items():
        tensors[name] = np.concatenate([parts[index] for index in sorted(parts)])
    return tensors


def _with_common_depth(weight: LayerWeight, layer: LayerConfig) -> Array:
    """Returns a weight [outputs, inputs] or [outputs], its heads padded with zeros to one depth.

    The depth is the larger of d_k and d_v. A weight without heads is only transposed.
    """
    value = np.array(weight.variable)
    is_output = weight.part == "output"
    # The output's bias has no heads: it is added after they are joined.
    if weight.part not in ("query", "key", "value", "output") or (is_output and value.ndim == 1):
        return value.T
    # [..., num_heads * depth]: the output alone has its heads on the first axis.
    heads_last = value.T if is_output else value
    heads = heads_last.reshape(*heads_last.shape[:-1], layer.num_heads, -1)
    missing = max(layer.key_depth, layer.value_depth) - heads.shape[-1]
    # Zeros are added at the end of the last axis alone.
    padded = np.pad(heads, [*[(0, 0)] * (heads.ndim - 1), (0, missing)])
    joined = padded.reshape(*heads_last.shape[:-1], -1)
    return joined if is_output else joined.T


def _has_words(side: SubwordModel) -> bool:
    """Returns whether a side's text is split at blanks, without a SentencePiece model."""
    return isinstance(side, MarianSubwords) and side.content.kind == "words"
