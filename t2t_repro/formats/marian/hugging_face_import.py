"""Builds our `Transformer` of the files of a Marian model, as Hugging Face saves it.

Settings are in config.json and generation_config.json. Those of the search that ours lacks are
warned of: they refuse no model.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.fields import TIED, Fields
from t2t_repro.formats.marian.model import MarianModel
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.formats.marian.weights import load_weights, position_kind, read_weights
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer

CONFIG, GENERATION = "config.json", "generation_config.json"

ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "linear": "linear", "relu": "relu", "relu6": "relu6",
    "sigmoid": "sigmoid", "silu": "swish", "swish": "swish", "tanh": "tanh",
}  # fmt: skip
"""Keras's names of the activations, by those of transformers."""

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
    "_attn_implementation_autoset", "_from_model_config", "_name_or_path", "_num_labels",
    "bos_token_id", "dtype", "early_stopping", "extra_pos_embeddings", "forced_eos_token_id",
    "id2label", "init_std", "label2id", "max_length", "max_new_tokens", "num_hidden_layers",
    "num_labels", "num_return_sequences", "temperature", "top_k", "top_p", "torch_dtype",
    "transformers_version", "unk_token_id", "use_cache",
}  # fmt: skip
"""Fields that say something and change no translation.

Marian's translations begin with PAD, so `bos_token_id` is not used. Without sampling, temperature,
top_k and top_p have no effect. `early_stopping` only ends the search of transformers sooner.
`max_length` is the same for all sentences, and `forced_eos_token_id` is for those that reach it;
our limit grows with the source.
"""

SEARCH = {
    "begin_suppress_tokens", "diversity_penalty", "do_sample", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "force_bos_token_to_be_generated", "forced_bos_token_id",
    "guidance_scale", "min_length", "min_new_tokens", "no_repeat_ngram_size", "num_beam_groups",
    "repetition_penalty", "suppress_tokens",
}  # fmt: skip
"""Settings of the search that ours lacks."""


class MarianConfig(NamedTuple):
    """The settings of a Marian model, in our terms.

    Attributes:
        model: arguments of the `Transformer`.
        pad: the id of PAD, with which the decoder begins.
        eos: the id of EOS.
        positions: the most subwords of a sentence, EOS included.
        decoding: gin bindings of its search.
        forbidden: ids that its translations must not contain, beside PAD.
    """

    model: dict[str, Any]
    pad: int
    eos: int
    positions: int
    decoding: str
    forbidden: list[int]


def read_hugging_face(directory: Path) -> MarianModel:
    """Reads a directory that `MarianMTModel.save_pretrained` and its tokenizer's wrote.

    Args:
        directory: config.json, weights, and the files of the tokenizer.

    Raises:
        UserError: a file is missing or damaged, the files do not belong together, or the model is
            one that `Transformer` cannot be.
    """
    # First, so that a model of another kind is called by its kind, not by the files it lacks.
    config = read_marian_config(directory)
    text = read_marian_text(directory)
    file = read_weights(directory)
    file.check_held(config.model)
    target_rows = config.model["vocab_size"]
    source_rows = config.model["source_vocab_size"] or target_rows
    rows = {
        "source": _rows(directory, config, text.source.ids, source_rows),
        "target": _rows(directory, config, text.target.ids, target_rows),
    }
    positions = position_kind(file, config.positions, config.model["config"].d_model)
    model = Transformer(**config.model | {"positional_encoding": positions})
    model.build()
    load_weights(model, file, rows)
    longest = min(config.positions, text.max_length or config.positions)
    decoding = f"{config.decoding}Translator.max_source_length = {longest}\n"
    if config.forbidden:
        forbidden = np.argsort(rows["target"])[config.forbidden].tolist()
        decoding += f"Translator.forbidden_ids = {tuple(forbidden)}\n"
    return MarianModel(model, text, decoding, file.path.name)


def _rows(
    directory: Path, config: MarianConfig, ids: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Returns their row of each of our ids: those of pieces, then those without a piece."""
    pad, eos, *_ = ids
    if len(ids) > count or (config.pad, config.eos) != (pad, eos):
        raise UserError(
            f"{directory / CONFIG} has {count} ids, pad_token_id = {config.pad} and eos_token_id = "
            f"{config.eos}, but a vocabulary has {len(ids)} pieces, PAD at {pad} and EOS at {eos}: "
            "give the files of one model."
        )
    return np.concatenate([ids, np.setdiff1d(np.arange(count), ids)])


def read_marian_config(directory: Path) -> MarianConfig:
    """Reads what `MarianMTModel.save_pretrained` wrote of a model's settings.

    Args:
        directory: with config.json, and perhaps generation_config.json.

    Raises:
        UserError: a file is missing, or the model is one that `Transformer` cannot be.
    """
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
        pad=pad,
        eos=eos,
        positions=config.size("max_position_embeddings"),
        decoding=_decoding(generation, pad in forbidden),
        forbidden=[number for number in forbidden if number != pad],
    )
    known = config.known | generation.known | DESCRIPTIVE
    if generation is not config:
        # Its settings of the search are not used.
        config.warn(known | SEARCH)
    without_effect_at_1 = {"num_beam_groups", "repetition_penalty"}
    known |= {name for name in without_effect_at_1 if generation.values.get(name) == 1}
    generation.warn(known)
    return read


def _only(ids: Any) -> Any:
    """Returns the id of a list of one."""
    return ids[0] if isinstance(ids, list) and len(ids) == 1 else ids


def _forbidden(generation: Fields, rows: int, eos: int) -> list[int]:
    """Returns the ids that no translation has; phrases, and EOS, cannot be forbidden."""
    words = list(map(_only, generation.value("bad_words_ids", [])))
    single = [word for word in words if word in range(rows) and word != eos]
    if others := [word for word in words if word not in single]:
        generation.ignored.append(f"bad_words_ids = {others}")
    return single


def _model(config: Fields) -> dict[str, Any]:
    rows = config.size("vocab_size")
    shares = config.value("share_encoder_decoder_embeddings", True)
    ties = config.value("tie_word_embeddings", True)
    if shares:
        config.require("decoder_vocab_size", rows)
    for name in ("ffn_dim", "attention_heads"):
        config.require(f"decoder_{name}", config.size(f"encoder_{name}"))
    encoder_layers = config.size("encoder_layers")
    return {
        "vocab_size": config.size("decoder_vocab_size", rows),
        "num_layers": encoder_layers,
        "num_decoder_layers": config.size("decoder_layers", encoder_layers),
        "config": LayerConfig(
            d_model=config.size("d_model"),
            d_ff=config.size("encoder_ffn_dim"),
            num_heads=config.size("encoder_attention_heads"),
            dropout=config.value("dropout", 0.1),
            attention_dropout=config.value("attention_dropout", 0.0),
            relu_dropout=config.value("activation_dropout", 0.0),
            activation=config.one_of("activation_function", ACTIVATIONS, "gelu"),
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
    penalty = generation.value("length_penalty", 1.0)
    if penalty < 0:
        generation.ignored.append(f"length_penalty = {penalty}")
    return (
        "# Imported from a Marian model of Hugging Face, with the settings that it came with:\n"
        f"BeamSearch.beam_size = {generation.size('num_beams', 1)}\n"
        f"BeamSearch.length_penalty = {max(float(penalty), 0.0)}\n"
        "BeamSearch.penalty = @power_penalty\n"
        f"Translator.forbid_pad = {forbids}\n"
        f"Translator.renormalize = {forbids and renormalizes}\n"
        "Translator.max_extra_length = 50\n"
    )
