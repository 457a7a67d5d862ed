"""A trained model as Hugging Face's transformers read it: a directory of `MarianMTModel`.

export_dir/
  model.safetensors       the weights
  config.json             sizes
  generation_config.json  how `generate` searches unless it is told otherwise
  source.spm, target.spm, vocab.json, tokenizer_config.json
                          the text, see `marian_tokenizer`
  README.md               the model card

The weights are ours, in the order of `models.marian_weights`. What differs:

- PAD begins a translation and looks up as zero, so its row there is zero. Ours has a row that
  takes part in the softmax. Where look-up and softmax share a table, that row stands once more at
  its end, as an id that no text has; PAD's own logit is so low that it weighs nothing. So
  probabilities are the same. Where PAD is forbidden there is no such row: the others share its
  probability, which `renormalize` has them do here too.
- ε of their layer norm is always 1e-5. With vectors that are four times ours that is 6.25e-7 for
  ours, near the paper's 1e-6; of 1e-5 nothing has to be scaled.
- Their `generate` divides log P by length^α, EOS counted, as our `power_penalty` does. The paper's
  penalty becomes the α that grows as fast at the length of the training data's sentences.
- Of candidates that end it takes those among the best beam_size, ours among 2·beam_size; and it
  stops sooner.
- A translation may be as long as positions last; ours as its source and 50 more.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.export_directory import export_directory
from t2t_repro.formats.marian.config import ACTIVATIONS
from t2t_repro.formats.marian.marian_order import (
    THEIR_EPSILON,
    layers_as_marians,
    reordered,
    their_order,
)
from t2t_repro.formats.marian.marian_tokenizer import MarianSide, as_json, tokenizer_files
from t2t_repro.formats.marian.safetensors_file import write_safetensors
from t2t_repro.formats.marian.weights import LOGITS_BIAS, OWN_TABLES, SHARED, SOFTMAX
from t2t_repro.model.transformer import OWN_SOFTMAX, OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.vocabulary import EOS_ID, PAD_ID

_ACTIVATIONS = {"silu": "swish", **{name: name for name in ACTIVATIONS.values()}}
"""Keras's names of what transformers compute too, and theirs."""

NEVER = -1000.0
"""A logit that adds nothing to a sum of exponentials in float32."""

_POSITIONS = ("interleaved", "halves")
_COLUMN = "<pad_column>"
_MEAN_LENGTH = 25.0
"""How many subwords a sentence has, EOS included, where nothing is known of the data."""


class HuggingFaceModel:
    """A translator in Marian's form.

    Args:
        translator: its model, in float32, its subwords, its limits and its beam search are taken.
        mean_length: how many subwords a target sentence of the training data has on average, EOS
            included; None where that is not known.

    Attributes:
        generation: the settings of `generate`, what generation_config.json holds.
        differences: what transformers will do otherwise, a line each.

    Raises:
        UserError: Marian's form cannot hold the model.
    """

    def __init__(self, translator: Translator, mean_length: float | None = None) -> None:
        self._model = model = translator.model
        _check_held(model)
        self._source, self._target = translator.subwords.each(MarianSide.of)
        self._longest_source = translator.max_source_length
        self._positions = translator.max_source_length + translator.settings.max_extra_length
        self._has_own_softmax = model.tied_embeddings in OWN_SOFTMAX
        column = np.array(model.softmax.table)[PAD_ID]
        is_lost = not self._has_own_softmax and column.any()
        # What is never written needs no column, by which it could be written under another name.
        self._column = [column] if is_lost and not translator.settings.forbid_pad else []
        self._never_pad = is_lost
        self._mean_length = mean_length or _MEAN_LENGTH
        self.generation = self._generation(translator)
        self.differences = list(self._differences(translator))

    def write(self, export_dir: Path, card: str) -> None:
        """Writes the directory, whole or not at all: aside, and then renamed.

        Args:
            export_dir: the directory to make.
            card: the text of README.md.

        Raises:
            UserError: the directory is there already or cannot be written.
        """
        files = {
            **self._text(),
            "config.json": as_json(self._config()),
            "generation_config.json": as_json(self.generation),
            "README.md": card.encode(),
        }
        with export_directory(export_dir) as aside:
            for name, content in files.items():
                (aside / name).write_bytes(content)
            write_safetensors(aside / "model.safetensors", self.weights())

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Returns all weights by their names."""
        order = their_order(self._model)
        found = layers_as_marians(self._model)
        tables = self._tables()
        found |= {name: reordered(table, order, (1,)) for name, table in tables.items()}
        return found | {LOGITS_BIAS: self._logits_bias()[None]}

    def _tables(self) -> dict[str, NDArray[np.float32]]:
        model = self._model
        target = np.concatenate([model.embedding.looked_up(), *(c[None] for c in self._column)])
        tables = {SHARED: target} if self._is_shared else {}
        if self._has_own_softmax:
            tables[SOFTMAX] = np.array(model.softmax.table)
        if not self._is_shared or self._has_own_softmax:
            # With a softmax of its own theirs ties nothing: what is shared has to be there twice.
            tables[OWN_TABLES["source"]] = model.source_embedding.looked_up()
            tables[OWN_TABLES["target"]] = target
        return tables

    @property
    def _is_shared(self) -> bool:
        return self._model.tied_embeddings not in OWN_SOURCE_EMBEDDING

    def _logits_bias(self) -> NDArray[np.float32]:
        """[rows of the target]; where PAD's own row is lost, its bias forbids it."""
        model = self._model
        bias = np.zeros(model.vocab_size, np.float32)
        if model.logits_bias is not None:
            bias = np.array(model.logits_bias)
        if self._column:
            bias = np.append(bias, bias[PAD_ID])
        if self._never_pad:
            bias[PAD_ID] = NEVER
        return bias

    def _rows(self) -> tuple[int, int]:
        """How many ids source and target have."""
        target = self._model.vocab_size + len(self._column)
        return (target if self._is_shared else self._model.source_vocab_size), target

    def _text(self) -> dict[str, bytes]:
        rows, last = self._rows(), [_COLUMN] * len(self._column)
        ids = (
            self._source.ids(rows[0], *(last if self._is_shared else [])),
            self._target.ids(rows[1], *last),
        )
        return tokenizer_files(self._source, self._target, ids, self._longest_source)

    def _config(self) -> dict[str, Any]:
        model, layer = self._model, self._model.config
        rows = self._rows()
        sizes = {
            "layers": model.num_layers,
            "attention_heads": layer.num_heads,
            "ffn_dim": layer.d_ff,
            "layerdrop": 0.0,
        }
        return {
            "model_type": "marian",
            "architectures": ["MarianMTModel"],
            "dtype": "float32",
            "d_model": layer.d_model,
            **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sizes.items()},
            "vocab_size": rows[0],
            "decoder_vocab_size": rows[1],
            "share_encoder_decoder_embeddings": self._is_shared,
            "tie_word_embeddings": not self._has_own_softmax,
            "max_position_embeddings": self._positions,
            "static_position_embeddings": True,
            "scale_embedding": True,
            "normalize_before": False,
            "normalize_embedding": False,
            "add_final_layer_norm": False,
            "activation_function": _ACTIVATIONS[layer.activation],
            "dropout": layer.dropout,
            "attention_dropout": layer.attention_dropout,
            "activation_dropout": layer.relu_dropout,
            "is_encoder_decoder": True,
            "pad_token_id": PAD_ID,
            "eos_token_id": EOS_ID,
            "bos_token_id": None,
            "decoder_start_token_id": PAD_ID,
            "forced_eos_token_id": None,
        }

    def _generation(self, translator: Translator) -> dict[str, Any]:
        search = translator.settings.search
        found: dict[str, Any] = {
            "pad_token_id": PAD_ID,
            "eos_token_id": EOS_ID,
            "decoder_start_token_id": PAD_ID,
            "forced_eos_token_id": None,
            "bad_words_ids": [[PAD_ID]],
            # With the start symbol.
            "max_length": self._positions,
            "num_beams": 1,
        }
        if isinstance(search, BeamSearch) and search.beam_size > 1:
            found["num_beams"] = search.beam_size
            found["length_penalty"] = round(equal_exponent(search, self._mean_length), 3)
            found["early_stopping"] = False
        if translator.settings.forbid_pad and translator.settings.renormalize:
            found["renormalize_logits"] = True
        return found

    def _differences(self, translator: Translator) -> Iterator[str]:
        search = translator.settings.search
        if not isinstance(search, BeamSearch):
            yield f"{type(search).__name__} is left out: transformers will translate greedily"
        elif self.generation["num_beams"] > 1:
            alpha = self.generation["length_penalty"]
            if alpha != round(search.length_penalty, 3):
                yield (
                    f"transformers divide log P by length^{alpha}, which grows as fast as this "
                    f"model's own penalty for sentences of {self._mean_length:.0f} subwords"
                )
        if (
            self._never_pad
            and translator.settings.forbid_pad
            and not translator.settings.renormalize
        ):
            yield (
                "scores leave PAD its probability here, though it is never written; transformers "
                "share it among the other subwords"
            )
        if translator.settings.rerank:
            yield "Translator.rerank is left out: transformers answer what their search finds"


def equal_exponent(search: BeamSearch, length: float) -> float:
    """Returns the α with which length^α grows as fast at some length as the search's penalty does.

    Of `power_penalty` that is its own; of the paper's α·length / (length + 5).

    Args:
        search: with any penalty.
        length: in subwords, EOS included.
    """
    around = np.array([round(length), round(length) + 1])
    penalties = np.array(search.penalty(around, search.length_penalty), np.float64)
    return float(np.diff(np.log(penalties))[0] / np.diff(np.log(around))[0])


def _check_held(model: Transformer) -> None:
    """Says what of a model Marian's form cannot hold."""
    layer = model.config
    depth = layer.d_model / layer.num_heads
    for name, found, known in (
        ("LayerConfig.normalization", layer.normalization, ["post"]),
        ("LayerConfig.norm", layer.norm, ["LayerNorm"]),
        ("LayerConfig.activation", layer.activation, sorted(_ACTIVATIONS)),
        ("LayerConfig.d_k", layer.key_depth, [depth]),
        ("LayerConfig.d_v", layer.value_depth, [depth]),
        ("Transformer.positional_encoding", model.positional_encoding.kind, _POSITIONS),
        ("Transformer.neighbourhood", model.neighbourhood, [None]),
    ):
        if found not in known:
            raise UserError(
                f"the model has {name} = {found!r}, which Hugging Face's MarianMTModel cannot "
                f"hold; expected {' or '.join(map(repr, known))}: give --format=saved_model."
            )
    if layer.norm_epsilon > THEIR_EPSILON:
        raise UserError(
            f"the model has LayerConfig.norm_epsilon = {layer.norm_epsilon}, where Hugging Face's "
            f"MarianMTModel has {THEIR_EPSILON}; expected that at most: give --format=saved_model."
        )
