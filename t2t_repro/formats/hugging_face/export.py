"""Exports a trained model as a directory of Hugging Face's `MarianMTModel`.

export_dir/
  model.safetensors       the weights
  config.json             sizes
  generation_config.json  the default search of `generate`
  source.spm, target.spm, vocab.json, tokenizer_config.json
                          the text, see `formats.hugging_face.tokenizer`
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
  needed: the other ids share its probability, as with `ImportedBehaviour.renormalize`.
- `generate` divides log P by length^α, EOS counted, as our `power_penalty` does. The paper's
  penalty becomes the α that grows as fast at the mean length of the training data's sentences.
- `generate` keeps candidates that end among the best beam_size, ours among 2·beam_size, and stops
  sooner.
- The longest translation is the same for all sentences; ours grows with the source.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from t2t_repro.decoding.settings import BeamSearch, MarianSearch
from t2t_repro.decoding.translator import Translator
from t2t_repro.files import whole_directory, write_json
from t2t_repro.formats.hugging_face import model as names
from t2t_repro.formats.hugging_face.tokenizer import SETTINGS, marian_file, tokenizer_files
from t2t_repro.formats.imported import NEVER, Array
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight, check_exportable, layer_weights, logits_bias
from t2t_repro.text.marian import MarianFile
from t2t_repro.vocabulary import EOS_ID, PAD_ID

THEIR_EPSILON = 1e-5

# Names of activations in transformers, by Keras's.
_ACTIVATIONS = {"silu": "swish", **{name: name for name in names.ACTIVATIONS.values()}}

_POSITIONS = ("interleaved", "halves", "concatenated")
_SPECIAL_IDS = {"pad_token_id": PAD_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": PAD_ID}


class HuggingFaceModel:
    """A translator in Marian's form.

    Args:
        translator: has a model in float32; its subwords, limits and search are exported too.
        mean_length: mean number of subwords of a target sentence of the training data, EOS
            included; None where it is not known.

    Attributes:
        generation: the settings of `generate`.
        differences: how transformers' decoding differs, a line each.

    Raises:
        UserError: Marian's form cannot hold the model.
    """

    def __init__(self, translator: Translator, mean_length: float | None = None) -> None:
        model = translator.model
        _check_supported(model)
        self._model = model
        self._max_source = translator.max_source_length
        self._positions = max(self._max_source, translator.max_target_length(self._max_source))
        # A usual length of sentences, where that of the training data is not known.
        self._mean_length = mean_length or 25.0
        self._shares_table = model.own_source_embedding is None
        # [1, d_model]
        pad_row = np.array(model.softmax.table)[PAD_ID : PAD_ID + 1]
        # In Marian's form, a table that is looked up has zeros in the row of PAD.
        self._loses_pad = model.own_softmax is None and bool(pad_row.any())
        repeats_pad = self._loses_pad and not translator.settings.imported.forbid_pad
        # [0 or 1, d_model], behind all other rows of the target's table.
        self._last_rows = pad_row if repeats_pad else pad_row[:0]
        last = ["<pad_column>"] if repeats_pad else []
        source, target = translator.subwords.each(marian_file)
        self._target = _padded(model.vocab_size, target, last)
        # One table has one vocabulary; a table of the source alone needs no repeated row.
        self._source = _padded(model.source_vocab_size, source, last if self._shares_table else [])
        self.generation = self._generation_settings(translator)
        self.differences = list(self._differences(translator))

    def write(self, export_dir: Path, card: str) -> None:
        """Writes the new directory, whole or not at all; `card` is the text of its README.md.

        Raises:
            OSError: the directory is not empty, or cannot be written.
        """
        text = tokenizer_files(self._source, self._target, self._max_source)
        with whole_directory(export_dir) as partial:
            for name, content in text.items():
                (partial / name).write_bytes(content)
            write_json(partial / names.CONFIG, self._config())
            write_json(partial / names.GENERATION, self.generation)
            (partial / "README.md").write_text(card, encoding="utf-8")
            # transformers expect these metadata.
            save_file(self.weights(), partial / names.SAFETENSORS, {"format": "pt"})

    def weights(self) -> dict[str, Array]:
        """Returns all weights by the names of PyTorch's model, in its layout."""
        # The axis d_model has another order there.
        order = their_order(self._model)
        tables = {name: np.take(table, order, 1) for name, table in self._tables().items()}
        own_bias = logits_bias(self._model)
        # A repeated row of PAD has its bias, too.
        bias = np.append(own_bias, np.repeat(own_bias[PAD_ID], len(self._last_rows)))
        if self._loses_pad:
            # Its row of zeros must not count in the softmax.
            bias[PAD_ID] = NEVER
        weights = layers_as_marians(self._model) | tables | {names.LOGITS_BIAS: bias[None]}
        return {name: np.ascontiguousarray(weight) for name, weight in weights.items()}

    def _tables(self) -> dict[str, Array]:
        """Returns the tables [ids or positions, d_model in our order], by PyTorch's names.

        These are the embeddings, an untied softmax, and "concatenated" positions.
        """
        model = self._model
        target = np.concatenate([model.embedding.looked_up(), self._last_rows])
        tables = {names.SHARED: target} if self._shares_table else {}
        if model.own_softmax is not None:
            tables[names.SOFTMAX] = np.array(model.softmax.table)
        if model.own_softmax is not None or not self._shares_table:
            # Without a tied softmax transformers tie no tables at all: then each side has its own,
            # even where both have the same numbers.
            tables[names.SOURCE] = model.source_embedding.looked_up()
            tables[names.TARGET] = target
        if model.positional_encoding.kind == "concatenated":
            sinusoids = np.array(model.positional_encoding.encode(np.arange(self._positions)))
            tables |= dict.fromkeys(names.POSITIONS, sinusoids)
        return tables

    def _config(self) -> dict[str, Any]:
        """Returns the content of config.json: the model's sizes, by the names of transformers."""
        model, layer = self._model, self._model.config
        config = {
            **SETTINGS["exported"],
            "d_model": layer.d_model,
            "vocab_size": len(self._source.pieces),
            "decoder_vocab_size": len(self._target.pieces),
            "share_encoder_decoder_embeddings": self._shares_table,
            "tie_word_embeddings": model.own_softmax is None,
            "max_position_embeddings": self._positions,
            "activation_function": _ACTIVATIONS[layer.activation],
            "dropout": layer.dropout,
            "attention_dropout": layer.attention_dropout,
            "activation_dropout": layer.relu_dropout,
            **_SPECIAL_IDS,
        }
        for stack, depth in _depths(model).items():
            config[f"{stack}_layers"] = depth
            config[f"{stack}_attention_heads"] = layer.num_heads
            config[f"{stack}_ffn_dim"] = layer.d_ff
        return config

    def _generation_settings(self, translator: Translator) -> dict[str, Any]:
        """Returns the content of generation_config.json, the default search of `generate`.

        A search other than beam search becomes a greedy one; `differences` says so.
        """
        search, imported = translator.settings.search, translator.settings.imported
        settings: dict[str, Any] = {
            **_SPECIAL_IDS,
            # PAD begins a translation, and does not occur in it.
            "bad_words_ids": [[token] for token in sorted({PAD_ID, *translator.forbidden})],
            # `generate` counts the start token, too.
            "max_length": self._positions,
            "num_beams": 1,
        }
        if isinstance(search, BeamSearch) and search.beam_size > 1:
            settings["num_beams"] = search.beam_size
            settings["length_penalty"] = round(equal_exponent(search, self._mean_length), 3)
        # Otherwise forbidden ids keep their probability, as in our search.
        if imported.forbid_pad and imported.renormalize:
            settings["renormalize_logits"] = True
        return settings

    def _differences(self, translator: Translator) -> Iterator[str]:
        """Yields how transformers' decoding differs, a line each; nothing where it does not.

        Differences that every exported model has are left out; the module names them.
        """
        search = translator.settings.search
        alpha = self.generation.get("length_penalty")
        if not isinstance(search, BeamSearch):
            yield f"{type(search).__name__} is left out: transformers will translate greedily"
        elif alpha is not None and alpha != round(search.length_penalty, 3):
            growth = f"grows as fast as this model's penalty at {self._mean_length:.0f} subwords"
            yield f"transformers divide log P by length^{alpha}, which {growth}"
        if isinstance(search, MarianSearch) and search.word_penalty:
            yield f"transformers have no word penalty; here it is {search.word_penalty}"
        imported = translator.settings.imported
        keeps_pad = self._loses_pad and imported.forbid_pad and not imported.renormalize
        if keeps_pad or (imported.forbidden_ids and "renormalize_logits" in self.generation):
            yield "forbidden ids keep their probability here; transformers share it among others"


def _padded(rows: int, file: MarianFile, last: list[str]) -> MarianFile:
    """Returns a side with a name for every row of its table: `rows` names, and then `last`.

    A row that has no piece is "<row_32000>", with its own number.
    """
    fillers = [f"<row_{number}>" for number in range(len(file.pieces), rows)]
    return replace(file, pieces=[*file.pieces, *fillers, *last])


def their_order(model: Transformer) -> np.ndarray:
    """Returns the index in our vectors of each element of Marian's: [d_model].

    For "interleaved" positions it is 0, 2, 4, ..., 1, 3, 5, ...: sines first, then cosines.
    """
    ours = np.arange(model.config.d_model)
    has_sines_first = model.positional_encoding.kind in ("halves", "concatenated")
    return ours if has_sines_first else np.concatenate([ours[0::2], ours[1::2]])


def layers_as_marians(model: Transformer) -> dict[str, Array]:
    """Returns the weights of all layers in Marian's form, by PyTorch's names.

    Matrices are [outputs, inputs], and scaled as the module says. Missing biases are zeros.

    Args:
        model: built, post-norm, with num_heads heads of depth d_model / num_heads.
    """
    # s, the power of two for which 1e-5 / s² comes nearest to ε.
    scale = 2.0 ** round(math.log2(THEIR_EPSILON / model.config.norm_epsilon) / 2)
    order = their_order(model)
    weights: dict[str, Array] = {}
    for weight in layer_weights(model):
        axis, power = _axis_and_power(weight, _depths(model)[weight.stack])
        value = np.array(weight.variable).T * np.float32(scale**power)
        weights[names.NAMES.of(weight)] = value if axis is None else np.take(value, order, axis)
        if weight.kind == "kernel":
            # The kernel's own bias, if any, replaces these zeros later, or is already there.
            bias = names.NAMES.of(weight._replace(kind="bias"))
            weights.setdefault(bias, np.zeros(len(value), np.float32))
    return weights


def _depths(model: Transformer) -> dict[str, int]:
    """Returns the number of layers of "encoder" and "decoder"."""
    return {"encoder": model.num_layers, "decoder": model.num_decoder_layers}


def _axis_and_power(weight: LayerWeight, depth: int) -> tuple[int | None, int]:
    """Returns how Marian's form changes a weight [outputs, inputs] of a stack of `depth` layers.

    Returns:
        axis: the one of length d_model, which gets `their_order`; None where there is none.
        power: the weight is multiplied by s^power, with the module's s: 1 where it is added to
            scaled vectors or makes them, -1 where it reads them, 0 where it does neither.
    """
    if weight.part == "norm":
        is_last = weight.sublayer == "feed_forward" and weight.layer == depth - 1
        return 0, int(not is_last)
    # Vectors before a stack's first norm, and the memory, are not scaled.
    is_before_norms = weight.sublayer == "self_attention" and weight.layer == 0
    reads_memory = weight.sublayer == "memory_attention" and weight.part in ("key", "value")
    power = 0 if is_before_norms or reads_memory else 1
    if weight.part in ("output", "outer"):
        return 0, power
    # All other kernels read vectors. Their biases stay within the sub-layer.
    return (1, -power) if weight.kind == "kernel" else (None, 0)


def equal_exponent(search: BeamSearch, length: float) -> float:
    """Returns the α with which length^α grows as fast as a search's penalty at a length.

    For `power_penalty` that is its own α; for the paper's, about α·length / (length + 5).

    Args:
        search: a search with any penalty.
        length: in subwords, EOS included; it is rounded.
    """
    lengths = np.array([round(length), round(length) + 1])
    penalties = np.array(search.penalty(lengths, search.length_penalty), np.float64)
    # The slope of log(penalty) over log(length), from this length to the next: that of length^α
    # is α.
    return float(np.diff(np.log(penalties)).item() / np.diff(np.log(lengths)).item())


def _check_supported(model: Transformer) -> None:
    """Checks that Marian's form can hold a model.

    Raises:
        UserError: it cannot; the error names the setting.
    """
    layer = model.config
    depth = layer.d_model // layer.num_heads
    supported = {
        "LayerConfig.normalization": (layer.normalization, ["post"]),
        "LayerConfig.activation": (layer.activation, sorted(_ACTIVATIONS)),
        "LayerConfig.d_k": (layer.key_depth, [depth]),
        "LayerConfig.d_v": (layer.value_depth, [depth]),
        # Any that is at most Marian's, so that s is at least 1.
        "LayerConfig.norm_epsilon": (layer.norm_epsilon, [min(layer.norm_epsilon, THEIR_EPSILON)]),
        "Transformer.positional_encoding": (model.positional_encoding.kind, _POSITIONS),
    }
    check_exportable(model, "Hugging Face's MarianMTModel", supported)
