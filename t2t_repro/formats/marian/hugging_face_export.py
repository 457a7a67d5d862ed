"""Exports a trained model as a directory of Hugging Face's `MarianMTModel`.

export_dir/
  model.safetensors       the weights
  config.json             sizes
  generation_config.json  the default search of `generate`
  source.spm, target.spm, vocab.json, tokenizer_config.json
                          the text, see `formats.marian.text`
  README.md               the model card

Logits are ours. Marian's form differs in these points:

- Position: theirs has all sines first, then all cosines; the paper's alternate. The exported axes
  of length d_model are put in that order. "concatenated" ones, which Marian computes itself, have
  that order and other angles: they stand in model.safetensors, from which transformers load them.
- ε of layer norm is always 1e-5. A norm with ε of s·x is a norm with ε / s² of x. So between the
  first and the last norm of a stack, all exported vectors are s times ours: norms, and what is
  added to these vectors, have s times our weights; what reads them has ours divided by s. s is a
  power of two, which loses no bit. For the paper's 1e-6, s = 4, and theirs is 6.25e-7.
- PAD begins a translation and is looked up as zero, so its row is zero. Our row of PAD takes part
  in the softmax. Where look-up and softmax share a table, that row is exported once more as the
  last id, which no text has, and PAD's own logit is -1000. Where PAD is forbidden no such row is
  needed: the other ids share its probability, as with `Translator.renormalize`.
- `generate` divides log P by length^α, EOS counted, as our `power_penalty` does. The paper's
  penalty becomes the α that grows as fast at the mean length of the training data's sentences.
- `generate` keeps candidates that end among the best beam_size, ours among 2·beam_size, and stops
  sooner.
- The longest translation is the same for all sentences; ours grows with the source.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.marian_search import MarianSearch
from t2t_repro.decoding.translator import Translator
from t2t_repro.files import whole_directory, write_json
from t2t_repro.formats.marian.hugging_face_import import ACTIVATIONS, CONFIG, GENERATION
from t2t_repro.formats.marian.model import NEVER, Array
from t2t_repro.formats.marian.text import marian_file, tokenizer_files
from t2t_repro.formats.marian.weights import (
    LOGITS_BIAS,
    OWN_TABLES,
    POSITIONS,
    SAFETENSORS,
    SHARED,
    SOFTMAX,
    their_name,
)
from t2t_repro.model.transformer import OWN_SOFTMAX, OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.runs.weights import LayerWeight, check_exportable, layer_weights
from t2t_repro.vocabulary import EOS_ID, PAD_ID

THEIR_EPSILON = 1e-5

_ACTIVATIONS = {"silu": "swish", **{name: name for name in ACTIVATIONS.values()}}
"""Names of activations in transformers, by Keras's."""

_POSITIONS = ("interleaved", "halves", "concatenated")
_SPECIAL_IDS = {"pad_token_id": PAD_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": PAD_ID}
_COLUMN = "<pad_column>"
_MEAN_LENGTH = 25.0


class HuggingFaceModel:
    """A translator in Marian's form.

    Args:
        translator: with a model in float32; its subwords, limits and search are exported too.
        mean_length: mean number of subwords of a target sentence of the training data, EOS
            included; None where it is not known.

    Attributes:
        generation: the settings of `generate`.
        differences: what transformers do differently, a line each.

    Raises:
        UserError: Marian's form cannot hold the model.
    """

    def __init__(self, translator: Translator, mean_length: float | None = None) -> None:
        self._model = model = translator.model
        _check_supported(model)
        self._source, self._target = translator.subwords.each(marian_file)
        self._longest_source = translator.max_source_length
        longest = translator.limit(translator.max_source_length)
        self._positions = max(translator.max_source_length, longest)
        self._mean_length = mean_length or _MEAN_LENGTH
        self._is_shared = model.tied_embeddings not in OWN_SOURCE_EMBEDDING
        self._has_softmax = model.tied_embeddings in OWN_SOFTMAX
        pad_row = np.array(model.softmax.table)[None, PAD_ID]
        self._loses_pad = not self._has_softmax and bool(pad_row.any())
        # [0 or 1, d_model]: rows that stand once more at the end.
        self._column = pad_row[: int(self._loses_pad and not translator.settings.forbid_pad)]
        self.generation = self._generation(translator)
        self.differences = list(self._differences(translator))

    def write(self, export_dir: Path, card: str) -> None:
        """Writes the directory, whole or not at all.

        Args:
            export_dir: the directory to make.
            card: the text of README.md.

        Raises:
            OSError: the directory is not empty, or cannot be written.
        """
        rows, last = self._rows(), [_COLUMN] * len(self._column)
        source_ids = _names(self._source.pieces, rows[0], last if self._is_shared else [])
        target_ids = _names(self._target.pieces, rows[1], last)
        sides = self._source, self._target, source_ids, target_ids
        with whole_directory(export_dir) as partial:
            for name, content in tokenizer_files(*sides, self._longest_source).items():
                (partial / name).write_bytes(content)
            write_json(partial / CONFIG, self._config())
            write_json(partial / GENERATION, self.generation)
            (partial / "README.md").write_text(card, encoding="utf-8")
            # Readers expect the metadata.
            save_file(self.weights(), partial / SAFETENSORS, {"format": "pt"})

    def weights(self) -> dict[str, Array]:
        """Returns all weights by their names."""
        order = their_order(self._model)
        tables = {name: np.take(table, order, 1) for name, table in self._tables().items()}
        weights = layers_as_marians(self._model) | tables | {LOGITS_BIAS: self._logits_bias()}
        return {name: np.ascontiguousarray(weight) for name, weight in weights.items()}

    def _tables(self) -> dict[str, Array]:
        model = self._model
        target = np.concatenate([model.embedding.looked_up(), self._column])
        tables = {SHARED: target} if self._is_shared else {}
        if self._has_softmax:
            tables[SOFTMAX] = np.array(model.softmax.table)
        if not self._is_shared or self._has_softmax:
            # A model with its own softmax ties nothing there, so a shared table is written twice.
            tables[OWN_TABLES["source"]] = model.source_embedding.looked_up()
            tables[OWN_TABLES["target"]] = target.copy()
        if model.positional_encoding.kind == "concatenated":
            sinusoids = model.positional_encoding.encode(np.arange(self._positions))
            tables |= {name: np.array(sinusoids) for name in POSITIONS}
        return tables

    def _logits_bias(self) -> Array:
        """[1, rows of the target]; the bias of a lost PAD forbids it."""
        model = self._model
        bias = np.zeros(model.vocab_size, np.float32)
        if model.logits_bias is not None:
            bias = np.array(model.logits_bias)
        bias = np.append(bias, bias[[PAD_ID] * len(self._column)])
        if self._loses_pad:
            bias[PAD_ID] = NEVER
        return bias[None]

    def _rows(self) -> tuple[int, int]:
        """Returns the numbers of ids of source and target."""
        target = self._model.vocab_size + len(self._column)
        return (target if self._is_shared else self._model.source_vocab_size), target

    def _config(self) -> dict[str, Any]:
        model, layer = self._model, self._model.config
        source_rows, target_rows = self._rows()
        config = {
            "model_type": "marian",
            "architectures": ["MarianMTModel"],
            "d_model": layer.d_model,
            "vocab_size": source_rows,
            "decoder_vocab_size": target_rows,
            "share_encoder_decoder_embeddings": self._is_shared,
            "tie_word_embeddings": not self._has_softmax,
            "max_position_embeddings": self._positions,
            "scale_embedding": True,
            "activation_function": _ACTIVATIONS[layer.activation],
            "dropout": layer.dropout,
            "attention_dropout": layer.attention_dropout,
            "activation_dropout": layer.relu_dropout,
            **_SPECIAL_IDS,
            "forced_eos_token_id": None,
        }
        for stack, depth in _depths(model).items():
            config[f"{stack}_layers"] = depth
            config[f"{stack}_attention_heads"] = layer.num_heads
            config[f"{stack}_ffn_dim"] = layer.d_ff
        return config

    def _generation(self, translator: Translator) -> dict[str, Any]:
        search = translator.settings.search
        settings: dict[str, Any] = {
            **_SPECIAL_IDS,
            "bad_words_ids": [[one] for one in sorted({PAD_ID, *translator.forbidden})],
            # With the start symbol.
            "max_length": self._positions,
            "num_beams": 1,
        }
        if isinstance(search, BeamSearch) and search.beam_size > 1:
            settings["num_beams"] = search.beam_size
            settings["length_penalty"] = round(equal_exponent(search, self._mean_length), 3)
        if translator.settings.forbid_pad and translator.settings.renormalize:
            settings["renormalize_logits"] = True
        return settings

    def _differences(self, translator: Translator) -> Iterator[str]:
        settings, alpha = translator.settings, self.generation.get("length_penalty")
        search = settings.search
        if not isinstance(search, BeamSearch):
            yield f"{type(search).__name__} is left out: transformers will translate greedily"
        elif alpha is not None and alpha != round(search.length_penalty, 3):
            yield (
                f"transformers divide log P by length^{alpha}, which grows as fast as this "
                f"model's own penalty for sentences of {self._mean_length:.0f} subwords"
            )
        if isinstance(search, MarianSearch) and search.word_penalty:
            yield f"transformers have no word penalty; here it is {search.word_penalty}"
        keeps_pad = self._loses_pad and settings.forbid_pad and not settings.renormalize
        if keeps_pad or (settings.forbidden_ids and "renormalize_logits" in self.generation):
            yield (
                "scores leave ids that are never written their probability here; transformers "
                "share it among the others"
            )
        if settings.rerank:
            yield "Translator.rerank is left out: transformers answer what their search finds"


def _names(pieces: list[str], rows: int, last: list[str]) -> list[str]:
    """Names all ids; those without a piece get names that no text has."""
    return [*pieces, *(f"<row_{number}>" for number in range(len(pieces), rows - len(last))), *last]


def scale_for(epsilon: float) -> float:
    """Returns s, the power of two for which 1e-5 / s² comes nearest to an ε."""
    return float(2.0 ** round(math.log2(math.sqrt(THEIR_EPSILON / epsilon))))


def their_order(model: Transformer) -> np.ndarray:
    """Returns for each place of their vectors its place in ours: [d_model]."""
    places = np.arange(model.config.d_model)
    if model.positional_encoding.kind in ("halves", "concatenated"):
        return places
    return np.concatenate([places[0::2], places[1::2]])


def layers_as_marians(model: Transformer) -> dict[str, Array]:
    """Returns the weights of all layers, by their names there; missing biases are zeros.

    Args:
        model: built, post-norm, with num_heads heads of depth d_model / num_heads.
    """
    order, scale = their_order(model), scale_for(model.config.norm_epsilon)
    weights: dict[str, Array] = {}
    for one in layer_weights(model):
        axis, power = _axis_and_power(one, _depths(model)[one.stack])
        value = np.array(one.variable).T * np.float32(scale**power)
        weights[their_name(one)] = value if axis is None else np.take(value, order, axis)
        if one.kind == "kernel":
            bias = their_name(one._replace(kind="bias"))
            weights.setdefault(bias, np.zeros(len(value), np.float32))
    return weights


def _depths(model: Transformer) -> dict[str, int]:
    return {"encoder": model.num_layers, "decoder": model.num_decoder_layers}


def _axis_and_power(one: LayerWeight, depth: int) -> tuple[int | None, int]:
    """Returns the axis of their weight that runs over d_model, and the power of s it is ours by."""
    if one.part == "norm":
        is_last = one.sublayer == "feed_forward" and one.layer == depth - 1
        return 0, int(not is_last)
    # Inputs of a stack, and the memory, are not scaled.
    reads_input = one.sublayer == "self_attention" and one.layer == 0
    reads_memory = one.sublayer == "memory_attention" and one.part in ("key", "value")
    power = int(not reads_input and not reads_memory)
    if one.part in ("output", "outer"):
        return 0, power
    return (1, -power) if one.kind == "kernel" else (None, 0)


def equal_exponent(search: BeamSearch, length: float) -> float:
    """Returns the α with which length^α grows as fast at some length as a search's penalty.

    For `power_penalty` that is its own α; for the paper's, α·length / (length + 5).

    Args:
        search: with any penalty.
        length: in subwords, EOS included.
    """
    around = np.array([round(length), round(length) + 1])
    penalties = np.array(search.penalty(around, search.length_penalty), np.float64)
    return float(np.diff(np.log(penalties))[0] / np.diff(np.log(around))[0])


def _check_supported(model: Transformer) -> None:
    layer = model.config
    depth = layer.d_model // layer.num_heads
    supported = {
        "LayerConfig.normalization": (layer.normalization, ["post"]),
        "LayerConfig.norm": (layer.norm, ["LayerNorm"]),
        "LayerConfig.activation": (layer.activation, sorted(_ACTIVATIONS)),
        "LayerConfig.d_k": (layer.key_depth, [depth]),
        "LayerConfig.d_v": (layer.value_depth, [depth]),
        "LayerConfig.norm_epsilon": (layer.norm_epsilon, [min(layer.norm_epsilon, THEIR_EPSILON)]),
        "Transformer.positional_encoding": (model.positional_encoding.kind, _POSITIONS),
        "Transformer.neighbourhood": (model.neighbourhood, [None]),
    }
    check_exportable(model, "Hugging Face's MarianMTModel", supported)
