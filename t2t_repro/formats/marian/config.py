"""What a Marian model of Hugging Face is set to: config.json and generation_config.json.

Every field is honoured, or has a value that changes nothing here, or is refused by its name. The
tables below say which is which; what they do not list is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_table
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import OWN_SOURCE_EMBEDDING

CONFIG, GENERATION = "config.json", "generation_config.json"

ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "linear": "linear", "relu": "relu", "relu6": "relu6",
    "sigmoid": "sigmoid", "silu": "swish", "swish": "swish", "tanh": "tanh",
}  # fmt: skip
"""Keras's names of the activations, by those that the transformers library has for the same."""

REQUIRED: dict[str, tuple[Any, ...]] = {
    "add_bias_logits": (False,),
    "add_final_layer_norm": (False,),
    "architectures": (["MarianMTModel"],),
    "decoder_layerdrop": (0,),
    "encoder_layerdrop": (0,),
    "is_decoder": (False,),
    "is_encoder_decoder": (True,),
    "model_type": ("marian",),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "scale_embedding": (True,),
    "static_position_embeddings": (True,),
}
"""What a field of config.json has to say for ours to compute the same."""

DESCRIBING = {
    "_name_or_path", "_num_labels", "bos_token_id", "classif_dropout", "classifier_dropout",
    "dtype", "extra_pos_embeddings", "gradient_checkpointing", "id2label", "init_std", "label2id",
    "num_hidden_layers", "num_labels", "output_past", "torch_dtype", "transformers_version",
    "use_cache",
}  # fmt: skip
"""Fields of config.json that change no result: Marian begins with PAD and has no classes."""

SIZES = {
    "d_model", "decoder_attention_heads", "decoder_ffn_dim", "decoder_layers",
    "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers", "max_position_embeddings",
    "vocab_size",
}  # fmt: skip
"""Fields of config.json that have to be there."""

OPTIONAL = {
    "activation_dropout", "activation_function", "attention_dropout", "decoder_start_token_id",
    "decoder_vocab_size", "dropout", "eos_token_id", "pad_token_id",
    "share_encoder_decoder_embeddings", "tie_word_embeddings",
}  # fmt: skip
"""Fields of config.json that are honoured where they are there."""

REQUIRED_OF_GENERATION: dict[str, tuple[Any, ...]] = {
    "begin_suppress_tokens": ([],),
    "constraints": (),
    "diversity_penalty": (0,),
    "do_sample": (False,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": (),
    "forced_bos_token_id": (),
    "forced_decoder_ids": (),
    "guidance_scale": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "penalty_alpha": (),
    "prefix": ("",),
    "repetition_penalty": (1,),
    "sequence_bias": (),
    "suppress_tokens": ([],),
    "task_specific_params": ({},),
    "tokenizer_class": ("MarianTokenizer",),
    "watermarking_config": (),
}
"""What a setting of generation has to say, if it says anything, for our search to do the same."""

DESCRIBING_GENERATION = {
    "_from_model_config", "bos_token_id", "cache_implementation", "chunk_size_feed_forward",
    "early_stopping", "epsilon_cutoff", "eta_cutoff", "finetuning_task", "max_length",
    "max_new_tokens", "output_attentions", "output_hidden_states", "output_logits", "output_scores",
    "problem_type", "pruned_heads", "remove_invalid_values", "return_dict",
    "return_dict_in_generate", "temperature", "tf_legacy_loss", "top_k", "top_p", "torchscript",
    "transformers_version", "typical_p", "use_bfloat16", "use_cache",
}  # fmt: skip
"""Settings that our search does not need.

Without sampling, temperature, top_k and top_p have no effect. `early_stopping` ends their search;
ours goes on as long as it can find a better translation. `max_length` is theirs for all sentences,
ours grows with the source: `Translator.max_extra_length`.
"""

GENERATED = {
    "bad_words_ids", "decoder_start_token_id", "eos_token_id", "forced_eos_token_id",
    "length_penalty", "num_beams", "pad_token_id", "renormalize_logits",
}  # fmt: skip
"""Settings that are honoured; config.json may have them as well, in older models.

`forced_eos_token_id` has to be EOS: where a translation reaches its limit theirs ends with it.
"""


class MarianConfig(NamedTuple):
    """What a Marian model is, in our terms.

    Attributes:
        layer: sizes and rates of every layer.
        num_layers: N.
        source_rows: of the source's embedding.
        target_rows: of the target's, and of the softmax.
        tied_embeddings: see `Transformer`.
        pad: the id of PAD, with which the decoder begins.
        eos: the id of EOS.
        positions: how many subwords a sentence may have, EOS included.
        decoding: bindings of gin: how it decodes.
    """

    layer: LayerConfig
    num_layers: int
    source_rows: int
    target_rows: int
    tied_embeddings: str
    pad: int
    eos: int
    positions: int
    decoding: str

    def model(self) -> dict[str, Any]:
        """Returns the arguments of the Transformer."""
        own_source = self.tied_embeddings in OWN_SOURCE_EMBEDDING
        return {
            "vocab_size": self.target_rows,
            "num_layers": self.num_layers,
            "config": self.layer,
            "positional_encoding": "halves",
            "tied_embeddings": self.tied_embeddings,
            "source_vocab_size": self.source_rows if own_source else None,
            "logits_bias": True,
        }


def read_marian_config(directory: Path) -> MarianConfig:
    """Reads what `MarianMTModel.save_pretrained` wrote of a model's settings.

    Args:
        directory: where config.json lies, and perhaps generation_config.json.

    Raises:
        UserError: a file is missing, or is of a model that our Transformer is not.
    """
    config = _Fields(directory / CONFIG)
    if (kind := config.given.get("model_type")) != "marian":
        raise UserError(
            f"{config.path} has model_type {kind!r}, expected 'marian': give the directory of a "
            "Marian model, such as OPUS-MT's."
        )
    generation = _generation(directory, config)
    for name, allowed in REQUIRED.items():
        config.check(name, allowed)
    of_generation = REQUIRED_OF_GENERATION.keys() | DESCRIBING_GENERATION | GENERATED
    config.check_names(REQUIRED.keys() | DESCRIBING | SIZES | OPTIONAL | of_generation)
    pad, eos = config.id("pad_token_id"), config.id("eos_token_id")
    for name, expected in (("decoder_start_token_id", pad), ("forced_eos_token_id", eos)):
        for fields in (config, generation):
            fields.check(name, (expected,))
    for name, expected in (("pad_token_id", pad), ("eos_token_id", eos)):
        generation.check(name, (expected,))
    shares = config.flag("share_encoder_decoder_embeddings", True)
    ties = config.flag("tie_word_embeddings", True)
    rows = config.size("vocab_size")
    target_rows = config.size("decoder_vocab_size", rows)
    if shares and target_rows != rows:
        raise UserError(
            f"{config.path} has vocab_size {rows} and decoder_vocab_size {target_rows}, expected "
            "the same with share_encoder_decoder_embeddings."
        )
    tied = ("all" if ties else "source_target") if shares else "target_softmax" if ties else "none"
    return MarianConfig(
        layer=_layer_config(config),
        num_layers=config.of_both_stacks("layers"),
        source_rows=rows,
        target_rows=target_rows,
        tied_embeddings=tied,
        pad=pad,
        eos=eos,
        positions=config.size("max_position_embeddings"),
        decoding=_decoding(generation, pad),
    )


class _Fields:
    """The fields of a file, and what they may say."""

    def __init__(self, path: Path, given: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.given = dict(_read(path) if given is None else given)

    def check_names(self, known: set[str]) -> None:
        for name, value in self.given.items():
            if name not in known and value is not None:
                raise self.refused(name, "no such field")

    def check(self, name: str, allowed: tuple[Any, ...]) -> None:
        """Checks that a field says what is allowed, or nothing."""
        value = self.given.get(name)
        # True is 1 to Python, and 1.0.
        is_allowed = any(
            value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed
        )
        if value is not None and not is_allowed:
            raise self.refused(name, " or ".join(map(repr, allowed)) or "no such field")

    def refused(self, name: str, expected: str) -> UserError:
        return UserError(
            f"{self.path} has {name} = {self.given.get(name)!r}, expected {expected}: only models "
            "of that kind can be imported."
        )

    def size(self, name: str, default: int | None = None) -> int:
        value = self.given.get(name)
        value = default if value is None else value
        if type(value) is not int or not 0 < value < 2**31:
            raise self.refused(name, "a size")
        return value

    def id(self, name: str) -> int:
        value = self.given.get(name)
        if type(value) is not int or not 0 <= value < 2**31:
            raise self.refused(name, "an id of the vocabulary")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.given.get(name)
        if not isinstance(value, bool | None):
            raise self.refused(name, "true or false")
        return default if value is None else value

    def number(self, name: str, default: float) -> float:
        value = self.given.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise self.refused(name, "a number")
        return default if value is None else value

    def of_both_stacks(self, name: str) -> int:
        """A size that the encoder and the decoder have; here they share it."""
        of_each = [self.size(f"{stack}_{name}") for stack in ("encoder", "decoder")]
        if of_each[0] != of_each[1]:
            raise self.refused(f"decoder_{name}", f"encoder_{name}, which is {of_each[0]}")
        return of_each[0]


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_table(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be used ({reason_of(error)}); expected what "
            "MarianMTModel.save_pretrained writes: copy the directory again."
        ) from error


def _layer_config(config: _Fields) -> LayerConfig:
    activation = config.given.get("activation_function", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise config.refused("activation_function", f"one of {', '.join(ACTIVATIONS)}")
    try:
        return LayerConfig(
            d_model=config.size("d_model"),
            d_ff=config.of_both_stacks("ffn_dim"),
            num_heads=config.of_both_stacks("attention_heads"),
            dropout=config.number("dropout", 0.1),
            attention_dropout=config.number("attention_dropout", 0.0),
            relu_dropout=config.number("activation_dropout", 0.0),
            activation=ACTIVATIONS[activation],
            attention_biases=True,
            norm_epsilon=1e-5,
        )
    except UserError as error:
        # gin appends lines of its own; the first is ours.
        reason = reason_of(error)
        raise UserError(f"{config.path} describes no Transformer: {reason}") from error


def _generation(directory: Path, config: _Fields) -> _Fields:
    """The settings of generation, which older models have in config.json."""
    path = directory / GENERATION
    # What config.json has is what the library took where there was no other file.
    known = REQUIRED_OF_GENERATION.keys() | GENERATED
    found = {name: value for name, value in config.given.items() if name in known}
    generation = _Fields(config.path, found)
    if path.exists():
        generation = _Fields(path)
        generation.check_names(known | DESCRIBING_GENERATION)
    for name, allowed in REQUIRED_OF_GENERATION.items():
        generation.check(name, allowed)
    return generation


def _decoding(generation: _Fields, pad: int) -> str:
    """The bindings of gin that decode as the settings say."""
    beam_size = generation.size("num_beams", 1)
    generation.check("bad_words_ids", ([[pad]], []))
    forbids = bool(generation.given.get("bad_words_ids"))
    renormalizes = generation.flag("renormalize_logits", False)
    penalty = generation.number("length_penalty", 1.0)
    if not 0 <= penalty <= 100:
        raise generation.refused("length_penalty", "a number from 0 to 100")
    if beam_size > 1024:
        raise generation.refused("num_beams", "at most 1024")
    lines = [
        f"BeamSearch.beam_size = {beam_size}",
        f"BeamSearch.length_penalty = {float(penalty)}",
        "BeamSearch.penalty = @power_penalty",
        f"Translator.forbid_pad = {forbids}",
        f"Translator.renormalize = {forbids and renormalizes}",
        "Translator.max_extra_length = 50",
    ]
    heading = "# Imported from a Marian model of Hugging Face, with the settings that it came with:"
    return "\n".join([heading, *lines, ""])
