"""Reads the settings of a Marian model in Hugging Face's form.

They are in config.json and generation_config.json. A field that decides weights, ids or what is
computed of them is honoured, or refused by name. Any other field is harmless where its value is
false, null, 0 or empty; otherwise a warning names it. Settings of the search that ours lacks are
warned of too: they refuse no model.
"""

import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml
from absl import logging
from safetensors import SafetensorError

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_json
from t2t_repro.model.layer_config import LayerConfig

CONFIG, GENERATION = "config.json", "generation_config.json"

ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "linear": "linear", "relu": "relu", "relu6": "relu6",
    "sigmoid": "sigmoid", "silu": "swish", "swish": "swish", "tanh": "tanh",
}  # fmt: skip
"""Keras's names of the activations, by those of transformers."""

TIED = {
    (True, True): "all", (True, False): "source_target",
    (False, True): "target_softmax", (False, False): "none",
}  # fmt: skip
"""`tied_embeddings` of (share_encoder_decoder_embeddings, tie_word_embeddings)."""

REQUIRED: dict[str, tuple[Any, ...]] = {
    "architectures": (["MarianMTModel"],),
    "is_encoder_decoder": (True,),
    "model_type": ("marian", "bart"),  # The latter in some files of 2020.
    "static_position_embeddings": (True,),
    "tokenizer_class": ("MarianTokenizer",),
}
"""What a field must say, if it is there, for our model to compute the same."""

REQUIRED_EMPTY = (
    "add_bias_logits", "add_final_layer_norm", "do_blenderbot_90_layernorm", "is_decoder",
    "normalize_before", "normalize_embedding",
)  # fmt: skip
"""Fields that would change what is computed, if they were not false, null, 0 or empty."""

DESCRIPTIVE = {
    "_attn_implementation", "_attn_implementation_autoset", "_from_model_config", "_name_or_path",
    "_num_labels", "bos_token_id", "cache_implementation", "dtype", "early_stopping",
    "extra_pos_embeddings", "forced_eos_token_id", "gradient_checkpointing", "id2label", "init_std",
    "label2id", "max_length", "max_new_tokens", "num_hidden_layers", "num_labels",
    "num_return_sequences", "output_past", "return_dict", "temperature", "top_k", "top_p",
    "torch_dtype", "transformers_version", "typical_p", "unk_token_id", "use_cache",
}  # fmt: skip
"""Fields that change no translation.

Marian's translations begin with PAD, so `bos_token_id` is not used. Without sampling, temperature,
top_k and top_p have no effect. `early_stopping` only ends the search of transformers sooner.
`max_length` is the same for all sentences, and `forced_eos_token_id` is for those that reach it;
our limit grows with the source.
"""

SEARCH: dict[str, Any] = dict.fromkeys((
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "force_bos_token_to_be_generated", "length_penalty", "min_length", "min_new_tokens",
    "no_repeat_ngram_size", "num_beams", "renormalize_logits", "suppress_tokens",
)) | dict.fromkeys((
    "encoder_repetition_penalty", "guidance_scale", "num_beam_groups", "repetition_penalty",
), 1)  # fmt: skip
"""Settings of the search, and the value of each with which it does nothing, if not null."""


_POINTER = b"version https://git-lfs"


class MarianConfig(NamedTuple):
    """The settings of a Marian model, in our terms.

    Attributes:
        model: arguments of the `Transformer`.
        source_rows: of the source's embedding.
        pad: the id of PAD, with which the decoder begins.
        eos: the id of EOS.
        positions: the most subwords of a sentence, EOS included.
        decoding: gin bindings of its search.
        forbidden: ids that its translations must not contain, beside PAD.
    """

    model: dict[str, Any]
    source_rows: int
    pad: int
    eos: int
    positions: int
    decoding: str
    forbidden: list[int]


def read_marian_config(directory: Path) -> MarianConfig:
    """Reads what `MarianMTModel.save_pretrained` wrote of a model's settings.

    Args:
        directory: with config.json, and perhaps generation_config.json.

    Raises:
        UserError: a file is missing, the model is one that `Transformer` cannot be, or it is an
            adapter.
    """
    if (adapter := directory / "adapter_config.json").exists():
        raise UserError(
            f"{directory} is an adapter of {Fields(adapter).value('base_model_name_or_path')}, "
            "expected a whole model: load it with peft, and save what merge_and_unload returns."
        )
    config = Fields(directory / CONFIG)
    # Older models have the settings of the search in config.json.
    generation = Fields(directory / GENERATION) if (directory / GENERATION).exists() else config
    for name, expected in REQUIRED.items():
        config.require(name, *expected)
    config.require_empty(*REQUIRED_EMPTY)
    if not config.value("scale_embedding"):
        # Where it is missing, transformers do not scale.
        raise config.refused("scale_embedding", "True")
    pad, eos = config.value("pad_token_id"), generation.value("eos_token_id")
    eos = _only(config.value("eos_token_id") if eos is None else eos)
    for fields in (config, generation):
        fields.require("decoder_start_token_id", pad)
    model = _model(config)
    forbidden = _forbidden(generation, model["vocab_size"], eos)
    read = MarianConfig(
        model,
        source_rows=config.size("vocab_size"),
        pad=pad,
        eos=eos,
        positions=config.size("max_position_embeddings"),
        decoding=_decoding(generation, pad in forbidden),
        forbidden=[number for number in forbidden if number != pad],
    )
    known = config.known | generation.known | DESCRIPTIVE
    if generation is not config:
        # Its settings of the search are not used.
        config.warn(known | SEARCH.keys())
    generation.warn(known | {"pad_token_id"})
    return read


def _only(ids: Any) -> Any:
    """Returns the id of a list of one."""
    return ids[0] if isinstance(ids, list) and len(ids) == 1 else ids


def _forbidden(generation: "Fields", rows: int, eos: int) -> list[int]:
    """Returns the ids that no translation has; phrases, and EOS, cannot be forbidden."""
    words = list(map(_only, generation.value("bad_words_ids", [])))
    single = [word for word in words if word in range(rows) and word != eos]
    if others := [word for word in words if word not in single]:
        generation.ignored.append(f"bad_words_ids = {others}")
    return single


Content = TypeVar("Content")


_SAVED = "what save_pretrained of MarianMTModel and MarianTokenizer write: copy the directory again"

# What the libraries that read these files raise where one is damaged; RuntimeError and KeyError are
# h5py's and SentencePiece's.
_DAMAGED = (
    OSError, ValueError, RuntimeError, KeyError, EOFError, SafetensorError, yaml.YAMLError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_file(path: Path, read: Callable[[Path], Content], expected: str = _SAVED) -> Content:
    """Reads a file of a Marian model.

    Args:
        path: of the file.
        read: reads its content.
        expected: what the file should be, and how to mend it, for the error.

    Raises:
        UserError: it is missing, not what `read` expects, or was not fetched from Git LFS.
    """
    refuse_pointer(path)
    try:
        return read(path)
    except _DAMAGED as error:
        raise UserError(
            f"{path} cannot be used ({reason_of(error)}); expected {expected}."
        ) from error


def refuse_pointer(path: Path) -> None:
    """Refuses what Git LFS leaves in the place of a file that it has not fetched.

    Raises:
        UserError: it is such a pointer.
    """
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise UserError(
                f"{path} is a pointer of Git LFS, expected the file itself: run git lfs pull in "
                "its repository, or download the file."
            )


class Fields:
    """The fields of a JSON file, as far as they are known.

    Args:
        path: of the file.
        read: reads its content.
        expected: as in `read_file`.

    Attributes:
        known: names of the fields that were read or checked.
        ignored: values that cannot be honoured, for the warning.

    Raises:
        UserError: the file cannot be read, or does not hold a JSON object.
    """

    def __init__(
        self, path: Path, read: Callable[[Path], Any] = read_json, expected: str = _SAVED
    ) -> None:
        self.path = path
        self.known: set[str] = set()
        self.ignored: list[str] = []
        self._values: dict[str, Any] = read_file(path, read, expected)

    def value(self, name: str, default: Any = None) -> Any:
        """Returns the value of a field, or the default where it is missing or null.

        Raises:
            UserError: it has another type than the default.
        """
        self.known.add(name)
        value = self._values.get(name)
        if value is None:
            return default
        kind = (int, float) if isinstance(default, float) else type(default)
        if default is not None and not isinstance(value, kind):
            raise self.refused(name, f"a value like {default!r}")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Returns a whole number from 1 on."""
        size = self.value(name, default)
        if type(size) is not int or size < 1:
            raise self.refused(name, "a size")
        return size

    def size_of_both_stacks(self, name: str) -> int:
        """Returns a size that encoder and decoder must have in common."""
        size = self.size(f"encoder_{name}")
        self.require(f"decoder_{name}", size)
        return size

    def require(self, name: str, *expected: Any) -> None:
        """Refuses a field that is there and has none of the expected values."""
        if self.value(name) not in (None, *expected):
            raise self.refused(name, " or ".join(map(repr, expected)))

    def require_empty(self, *names: str) -> None:
        """Refuses fields that are not false, null, 0 or empty."""
        for name in names:
            if self.value(name):
                raise self.refused(name, "false, null, 0 or empty")

    def refused(self, name: str, expected: str) -> UserError:
        """Returns the error for a value that cannot be imported."""
        return UserError(
            f"{self.path} has {name} = {self._values.get(name)!r}, expected {expected}: a model "
            "with another value cannot be imported."
        )

    def warn(self, known: set[str]) -> None:
        """Warns of what is ignored: fields that are not known, if their values say anything."""
        for name, value in self._values.items():
            if value and name not in known and value != SEARCH.get(name):
                self.ignored.append(f"{name} = {value!r}")
        if self.ignored:
            ignored = ", ".join(self.ignored)
            logging.warning("%s has settings without effect here: %s", self.path, ignored)


def _model(config: Fields) -> dict[str, Any]:
    rows = config.size("vocab_size")
    shares = config.value("share_encoder_decoder_embeddings", True)
    ties = config.value("tie_word_embeddings", True)
    if shares:
        config.require("decoder_vocab_size", rows)
    encoder_layers = config.size("encoder_layers")
    activation = config.value("activation_function", "gelu")
    if activation not in [*ACTIVATIONS]:
        raise config.refused("activation_function", f"one of {', '.join(ACTIVATIONS)}")
    return {
        "vocab_size": config.size("decoder_vocab_size", rows),
        "num_layers": encoder_layers,
        "num_decoder_layers": config.size("decoder_layers", encoder_layers),
        "config": LayerConfig(
            d_model=config.size("d_model"),
            d_ff=config.size_of_both_stacks("ffn_dim"),
            num_heads=config.size_of_both_stacks("attention_heads"),
            dropout=config.value("dropout", 0.1),
            attention_dropout=config.value("attention_dropout", 0.0),
            relu_dropout=config.value("activation_dropout", 0.0),
            activation=ACTIVATIONS[activation],
            attention_biases=True,
            norm_epsilon=1e-5,
        ),
        "tied_embeddings": TIED[bool(shares), bool(ties)],
        "source_vocab_size": None if shares else rows,
        "logits_bias": True,
    }


def _decoding(generation: Fields, forbids: bool) -> str:
    """Returns the gin bindings that search as the settings say, and forbid PAD or do not."""
    renormalizes = bool(generation.value("renormalize_logits"))
    beams, penalty = generation.value("num_beams", 1), generation.value("length_penalty", 1.0)
    if penalty < 0:
        generation.ignored.append(f"length_penalty = {penalty}")
    search = BeamSearch(beams, max(float(penalty), 0.0))
    return (
        "# Imported from a Marian model of Hugging Face, with the settings that it came with:\n"
        f"BeamSearch.beam_size = {search.beam_size}\n"
        f"BeamSearch.length_penalty = {search.length_penalty}\n"
        "BeamSearch.penalty = @power_penalty\n"
        f"Translator.forbid_pad = {forbids}\n"
        f"Translator.renormalize = {forbids and renormalizes}\n"
        "Translator.max_extra_length = 50\n"
    )
