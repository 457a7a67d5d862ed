"""Reads a model directory of Hugging Face as its family says; settings.yml has a row for each.

The settings are those of config.json and generation_config.json. What the search of transformers
can do, and ours cannot, is a warning: it refuses no model.

PyTorch stores matrices as [outputs, inputs], the transpose of ours, and the bias of the logits with
one row. Rows of embeddings are in the order of the model's own vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from absl import logging
from numpy.typing import NDArray
from safetensors.numpy import load_file

from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.formats import imported
from t2t_repro.formats.hugging_face.model_card import licence_of
from t2t_repro.formats.hugging_face.tokenizer import SETTINGS, read_m2m_text, read_marian_text
from t2t_repro.formats.imported import Ids, ImportedModel, ImportedText, SettingsFile, WeightsFile
from t2t_repro.model.positional_encoding import SINUSOIDS
from t2t_repro.model.settings import LayerConfig, Positions
from t2t_repro.model.transformer import Transformer

CONFIG, GENERATION = "config.json", "generation_config.json"
SAFETENSORS, TF_WEIGHTS = "model.safetensors", "tf_model.h5"
_INDEX = f"{SAFETENSORS}.index.json"

NAMES = imported.WeightNames("hugging_face")
_TABLES = NAMES.table["tables"]
SOURCE, TARGET, SOFTMAX, LOGITS_BIAS = _TABLES.values()
SHARED = "model.shared.weight"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

# Keras's names of the activations, by those of transformers.
ACTIVATIONS: dict[str, str] = SETTINGS["activations"]


class Family(NamedTuple):
    """The common traits of published models of one kind, a row of settings.yml.

    Attributes:
        origin: their name, for the comment in a model directory's config.gin.
        required: values that a field must have, if it is there, for our model to compute the same;
            without values, it must be false, null, 0 or empty.
        start: the field with the id with which a translation begins.
        activation: the activation where the field is missing.
        layers: further arguments of `LayerConfig`.
        model: further arguments of `Transformer`.
        positions: kinds of sinusoids that the weights may hold; the first if they hold none.
        read_text: reads the files of the tokenizer, with arguments as of `read_hugging_face`.
    """

    origin: str
    required: Mapping[str, Sequence[Any]]
    start: str
    activation: str
    layers: Mapping[str, Any]
    model: Mapping[str, Any]
    positions: Sequence[Positions]
    read_text: Callable[..., ImportedText]


_MARIAN = Family(**SETTINGS["families"]["marian"], read_text=read_marian_text)
_M2M_100 = Family(**SETTINGS["families"]["m2m_100"], read_text=read_m2m_text)
# By `model_type`; "bart" is that of some Marian models of 2020.
FAMILIES = {"marian": _MARIAN, "m2m_100": _M2M_100, "bart": _MARIAN}


class Config(NamedTuple):
    """The settings of a model, in our terms.

    Attributes:
        family: the model's family.
        model: arguments of the `Transformer`.
        pad: the id of PAD.
        eos: the id of EOS.
        positions: the most subwords of a sentence, EOS included.
        search: gin's bindings of the search, such as {"BeamSearch.beam_size": 4}.
        forbidden: the model's ids that its translations must not contain.
        renormalizes: whether the other ids share their probability.
    """

    family: Family
    model: dict[str, Any]
    pad: int
    eos: int
    positions: int
    search: dict[str, object]
    forbidden: list[int]
    renormalizes: bool


def read_hugging_face(directory: Path, **languages: str | None) -> ImportedModel:
    """Reads a model directory of transformers: settings, weights and the tokenizer's files.

    Args:
        directory: directory of the model.
        languages: codes of `source` and `target`, for sources without codes, if the model needs
            them; None for the tokenizer's own.

    Raises:
        UserError: a file is missing or damaged, the files do not belong together, or the model is
            one that `Transformer` cannot be.
    """
    # First, so that a model of another kind is called by its kind, not by the files it lacks.
    config = read_config(directory)
    text = config.family.read_text(directory, **languages)
    if any(languages.values()) and not text.source.file.languages:
        raise UserError(f"{directory} takes no languages: omit --source_ and --target_language.")
    file = read_weights(directory)
    file.check_size(config.model)
    d_model = config.model["config"].d_model
    positions = position_kind(file, config.positions, d_model, config.family.positions)
    model = Transformer(**config.model, positional_encoding=positions)
    model.build()
    source_rows = _row_numbers(directory, config, text.source.ids, model.source_vocab_size)
    target_rows = _row_numbers(directory, config, text.target.ids, model.vocab_size)
    load_weights(model, file, {"source": source_rows, "target": target_rows})
    settings = _decoding_settings(config, text.max_length, target_rows)
    licence = licence_of(directory) or "not stated"
    logging.info(f"the model's licence: {licence}")
    origin = f"{config.family.origin}, with the settings that it came with; licence: {licence}"
    return ImportedModel(model, text, imported.decoding_bindings(origin, settings), file.path.name)


def _decoding_settings(config: Config, longest: int | None, ids: Ids) -> dict[str, object]:
    """Returns gin's bindings of the model's search, its limits and its forbidden ids.

    Args:
        config: the model's settings.
        longest: the most subwords of a sentence for the tokenizer; None without a limit.
        ids: the model's id of each of our ids of the target: [vocab].
    """
    forbids_pad = config.pad in config.forbidden
    others = [number for number in config.forbidden if number != config.pad]
    return {
        **config.search,
        "Translator.max_source_length": min(config.positions, longest or config.positions),
        "ImportedBehaviour.forbid_pad": forbids_pad,
        "ImportedBehaviour.renormalize": forbids_pad and config.renormalizes,
        # argsort inverts the permutation: it has our id of each of theirs.
        "ImportedBehaviour.forbidden_ids": tuple(np.argsort(ids)[others].tolist()),
    }


def _row_numbers(directory: Path, config: Config, ids: Ids, count: int) -> Ids:
    """Returns the model's id of each of our ids, [count].

    Args:
        directory: directory of the model, for the error.
        config: the model's settings.
        ids: the model's ids that have a piece, in our order, which begins with PAD and EOS.
        count: the number of the model's ids. Those without a piece follow `ids`.

    Raises:
        UserError: the vocabulary has more pieces than the model has ids, or another PAD or EOS.
    """
    pad, eos = ids[:2].tolist()
    if len(ids) > count or (config.pad, config.eos) != (pad, eos):
        settings = f"{count} ids, pad_token_id = {config.pad} and eos_token_id = {config.eos}"
        vocabulary = f"{len(ids)} pieces, PAD at {pad} and EOS at {eos}"
        problem = f"{directory / CONFIG} has {settings}, but a vocabulary has {vocabulary}"
        raise UserError(f"{problem}: give the files of one model.")
    return np.concatenate([ids, np.setdiff1d(np.arange(count), ids)])


def read_config(directory: Path) -> Config:
    """Reads config.json, and generation_config.json if there is one.

    Raises:
        UserError: a file is damaged, or a field has a value that cannot be imported.
    """
    config = SettingsFile(directory / CONFIG)
    # Older models have the settings of the search in config.json.
    search_json = directory / GENERATION
    generation = SettingsFile(search_json) if search_json.exists() else config
    family = config.one_of("model_type", FAMILIES, "marian")
    config.require_all(family.required)
    if not config.value("scale_embedding"):
        # If it is missing, transformers do not scale.
        raise config.refused("scale_embedding", "True")
    for settings in (config, generation):
        settings.require("decoder_start_token_id", config.value(family.start))
    model = _model_arguments(config, family)
    search_eos = generation.value("eos_token_id")
    eos = _single(config.value("eos_token_id") if search_eos is None else search_eos)
    penalty = generation.value("length_penalty", 1.0)
    if penalty < 0:
        # It would prefer short translations, as no length penalty of ours does.
        generation.ignored.append(f"length_penalty = {penalty}")
    ours = Config(
        family=family,
        model=model,
        pad=config.value("pad_token_id"),
        eos=eos,
        positions=config.size("max_position_embeddings"),
        search={
            "BeamSearch.beam_size": generation.size("num_beams", 1),
            "BeamSearch.length_penalty": max(float(penalty), 0.0),
            "BeamSearch.penalty": "@power_penalty",
            "Translator.max_extra_length": 50,
        },
        forbidden=_forbidden_ids(generation, model["vocab_size"], eos),
        renormalizes=bool(generation.value("renormalize_logits")),
    )
    # By now all fields that are read are known.
    _warn_of_unused(config, generation)
    return ours


def _warn_of_unused(config: SettingsFile, generation: SettingsFile) -> None:
    """Logs the settings that have an effect in transformers, and none here.

    `config` and `generation` are the same object if the model has one file for both.
    """
    harmless = {*config.known, *generation.known, *SETTINGS["without_effect"]}
    if generation is not config:
        # transformers, too, then leave out settings of the search in config.json.
        config.warn(harmless.union(SETTINGS["search"]))
    # These have no effect if they are 1.
    factors = "num_beam_groups", "repetition_penalty"
    generation.warn(harmless.union(name for name in factors if generation.values.get(name) == 1))


def _single(ids: Any) -> Any:
    """Returns the item of a list with one item, and any other value as it is."""
    return ids[0] if isinstance(ids, list) and len(ids) == 1 else ids


def _forbidden_ids(generation: SettingsFile, rows: int, eos: int) -> list[int]:
    """Returns the ids that no translation may have: of bad_words_ids = [[5], [2, 3]], only 5.

    What we cannot forbid is added to `generation.ignored`, for the warning: phrases, EOS, and what
    is no id from 0 to `rows` - 1.
    """
    words = [_single(word) for word in generation.value("bad_words_ids", [])]
    # Not isinstance: True is an int.
    ids = [word for word in words if type(word) is int and 0 <= word < rows and word != eos]
    if ignored := [word for word in words if word not in ids]:
        generation.ignored.append(f"bad_words_ids = {ignored}")
    return ids


def _model_arguments(config: SettingsFile, family: Family) -> dict[str, Any]:
    """Returns the arguments of the `Transformer`, except for its positions.

    Raises:
        UserError: encoder and decoder differ in size, or a field has a value that is not supported.
    """
    # Defaults are those of transformers.
    source_rows = config.size("vocab_size")
    shares_embedding = config.value("share_encoder_decoder_embeddings", True)
    ties_softmax = config.value("tie_word_embeddings", True)
    if shares_embedding:
        config.require("decoder_vocab_size", source_rows)
    # Encoder and decoder have the same `LayerConfig`.
    for name in ("ffn_dim", "attention_heads"):
        config.require(f"decoder_{name}", config.size(f"encoder_{name}"))
    encoder_layers = config.size("encoder_layers")
    return {
        "vocab_size": config.size("decoder_vocab_size", source_rows),
        "num_layers": encoder_layers,
        "num_decoder_layers": config.size("decoder_layers", encoder_layers),
        "config": LayerConfig(
            d_model=config.size("d_model"),
            d_ff=config.size("encoder_ffn_dim"),
            num_heads=config.size("encoder_attention_heads"),
            dropout=config.value("dropout", 0.1),
            attention_dropout=config.value("attention_dropout", 0.0),
            relu_dropout=config.value("activation_dropout", 0.0),
            activation=config.one_of("activation_function", ACTIVATIONS, family.activation),
            **family.layers,
        ),
        "tied_embeddings": imported.TIED[bool(shares_embedding), bool(ties_softmax)],
        "source_vocab_size": None if shares_embedding else source_rows,
        **family.model,
    }


def read_weights(directory: Path) -> WeightsFile:
    """Reads the weights of a directory, in PyTorch's names and layout.

    The first of these counts: model.safetensors, the index of its shards, tf_model.h5.

    Raises:
        UserError: none of them is there, or a file is damaged or a pointer of Git LFS.
    """
    for name, read in ((SAFETENSORS, load_file), (_INDEX, _read_shards), (TF_WEIGHTS, _read_h5)):
        if (path := directory / name).exists():
            return WeightsFile(path, read)
    # The advice below would not help with a pointer.
    imported.refuse_pointer(directory / "pytorch_model.bin")
    raise UserError(
        f"{directory} has no {SAFETENSORS} or {TF_WEIGHTS} (a pytorch_model.bin is a pickle, which "
        "can run any program): convert the model once, with pip install transformers torch "
        'sentencepiece and python -c "from transformers import AutoModelForSeq2SeqLM as M, '
        "AutoTokenizer as T; [c.from_pretrained('NAME').save_pretrained('converted') for c in (M, "
        'T)]", where NAME is its directory or its name on the hub, and give --model=converted.'
    )


def _read_shards(index: Path) -> dict[str, NDArray]:
    """Reads all weights of the files that an index names, from the folder of the index.

    Raises:
        UserError: a file is missing or damaged.
    """
    # Such as {"lm_head.weight": "model-00001-of-00002.safetensors"}.
    file_of_weight: dict[str, str] = dict(read_json(index)["weight_map"])
    # `name` leaves out folders: an index cannot have files read from elsewhere.
    files = [index.with_name(Path(file).name) for file in sorted(set(file_of_weight.values()))]
    shards = (imported.read_file(file, load_file) for file in files)
    return {name: weight for shard in shards for name, weight in shard.items()}


def _read_h5(path: Path) -> dict[str, NDArray]:
    """Reads a file of `TFMarianMTModel.save_pretrained`, in PyTorch's names and layout.

    Raises:
        ValueError: the file would expand to too many bytes, or has a weight of neither stack.
    """
    tensors: dict[str, NDArray] = {}

    def add(name: str, dataset: Any) -> None:
        # All others are groups, whose datasets are visited, too.
        if isinstance(dataset, h5py.Dataset):
            # HDF5 may compress: a small file could fill the memory.
            imported.check_expanded(path, dataset.nbytes)
            value = dataset[()]
            # TensorFlow's names end in ":0"; its kernels are [inputs, outputs], unlike PyTorch's.
            *parts, last = name.split(":")[0].split("/")
            tensors[_pytorch_name(parts, last)] = value.T if last == "kernel" else value

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return tensors


def _pytorch_name(parts: list[str], last: str) -> str:
    """Returns PyTorch's name of a weight from its path in Keras, which repeats outer names.

    Of the parts of "model/tf_marian_mt_model/model/encoder/layers.0/fc1" and of "kernel" it is
    "model.encoder.layers.0.fc1.weight".

    Raises:
        ValueError: the path has no stack.
    """
    if last == LOGITS_BIAS:
        return last
    # The table of both sides; its layer is "shared", or has a name such as "model.shared".
    if parts[-1].endswith("shared"):
        return SHARED
    # The last stack in the path begins the weight's own name.
    start = max(index for index, part in enumerate(parts) if part in ("encoder", "decoder"))
    return ".".join(["model", *parts[start:], NAMES.table["kinds"].get(last, last)])


def position_kind(
    file: WeightsFile, length: int, d_model: int, kinds: Sequence[Positions]
) -> Positions:
    """Returns the kind of positions that a model with these weights adds.

    Args:
        file: may have tables of positions, [length, d_model].
        length: the number of positions.
        d_model: their width.
        kinds: the possible ones; the first if there are no tables, or if it is the only one.

    Raises:
        UserError: the tables are of none of these kinds, or of another size.
    """
    names = [name for name in POSITIONS if name in file.arrays]
    if len(kinds) == 1 or not names:
        return kinds[0]
    tables = [file.value(name, (length, d_model)) for name in names]
    for kind in kinds:
        expected = SINUSOIDS[kind](np.arange(length), d_model)
        # 4e-3: twice the most by which a number below 1 differs from its bfloat16.
        fits = [np.allclose(table, expected, rtol=0, atol=4e-3) for table in tables]
        # Transformers compute the first kind for a stack whose table is not stored.
        if all(fits) and (kind == kinds[0] or len(fits) == len(POSITIONS)):
            return kind
    problem = f"{file.path}: {' and '.join(names)} are not the sinusoids of transformers or Marian"
    raise UserError(f"{problem}: a model with learned ones cannot be imported.")


def load_weights(model: Transformer, file: WeightsFile, rows: Mapping[str, NDArray]) -> None:
    """Assigns the weights of a file to a model.

    Args:
        model: built, with biases in attention.
        file: all of its weights. It may have a tied table under any of its names; it gets all.
        rows: for "source" and "target" the file's id of each of our ids: [ids], each once.

    Raises:
        UserError: the file lacks weights, has others, or has different ones for a tied table.
    """
    weights = imported.named_weights(model, _TABLES, NAMES.of)
    # Some versions of transformers store the sinusoids of M2M-100, with an "s" at the end.
    sinusoids = (name + end for name in POSITIONS for end in ("", "s"))
    file.check_names({SHARED, *_TABLES.values(), *sinusoids, *weights})
    _share_tied(file, model)
    for name, (variable, side) in weights.items():
        shape = tuple(variable.shape)
        if side:
            variable.assign(file.value(name, shape)[rows[side]])
        else:
            # A layer's weight, which has no rows for ids: PyTorch stores it transposed.
            variable.assign(file.value(name, shape[::-1]).T)


def _share_tied(file: WeightsFile, model: Transformer) -> None:
    """Adds the model's tied table to `file` under all of its names; it may be there under any.

    A file without the table is left as it is.

    Raises:
        UserError: tables that are tied in the model differ in the file.
    """
    names = [SHARED, SOURCE, TARGET] if model.own_source_embedding is None else [TARGET]
    names += [SOFTMAX] if model.own_softmax is None else []
    stored = [name for name in names if name in file.arrays]
    tables = [file.arrays[name] for name in stored]
    if not all(np.array_equal(tables[0], table) for table in tables):
        problem = f"{file.path} has different numbers in {' and '.join(stored)}, expected the same"
        raise UserError(f"{problem}: otherwise set tie_word_embeddings in config.json to false.")
    if tables:
        file.arrays.update(dict.fromkeys(names, tables[0]))
