"""Reads a model directory of CTranslate2, to which models of many toolkits are converted.

The log-probabilities are those of CTranslate2 in float32:

- A translation begins with `decoder_start_token`, our `Transformer.start_id`; or with a zero
  vector, our PAD.
- PAD is a token whose row is zero, such as "<blank>"; otherwise it is one more row of zeros, whose
  logit is too low to count.
- Sinusoids of any kind become ours; other positions, also sinusoids in 16 bits, are learned ones.
- Embeddings that are not multiplied by √d_model are divided by it, and not tied to the softmax.

The directory says nothing of the search. Its vocabularies have pieces, and no rules of splitting:
these are in a SentencePiece model beside it; without one, text is words between blanks.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most
from t2t_repro.formats import imported
from t2t_repro.formats.ctranslate2 import layout
from t2t_repro.formats.ctranslate2.model_bin import read_model_bin
from t2t_repro.formats.imported import Array, Ids, ImportedModel, ImportedSide, SettingsFile
from t2t_repro.model.positional_encoding import SINUSOIDS
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight, layer_weights, name_of
from t2t_repro.text.marian import MarianFile
from t2t_repro.text.sentencepiece import MAX_FILE_BYTES
from t2t_repro.vocabulary import PAD_ID

# Ids of special tokens that a vocabulary lacks. They count from the end of a table, where as many
# rows of zeros are added.
_NO_PAD, _NO_EOS, _NO_UNK = -1, -2, -3

# The code of a language in M2M-100 and NLLB; here it is `>>de<<`, as in Marian's models.
_LANGUAGE = re.compile("^(?:__([a-z]+)__|([a-z]{3}_[A-Z][a-z]{3}))$")


@np.errstate(all="ignore")  # NaN and infinity are refused where they are read.
def read_ctranslate2(folder: Path, splitters: Sequence[Path] = ()) -> ImportedModel:
    """Reads a model directory of CTranslate2: model.bin, config.json and vocabularies.

    A model in a package of Argos Translate gets Argos's search, any other one our default.

    Args:
        folder: the directory; in a package of Argos Translate metadata.json lies beside it.
        splitters: SentencePiece models of source and target, or one for both; by default those in
            the folder, or a package's.

    Raises:
        UserError: a file is missing or damaged, the files do not belong together, or the model is
            not one that `Transformer` can be.
    """
    file, config = _ModelBin(folder / layout.MODEL), SettingsFile(folder / layout.CONFIG)
    config.require_all(layout.SETTINGS["config"])
    search: dict[str, object] = {}
    splitter_paths = splitters or _find_splitters(folder)
    if (argos_metadata := folder.with_name("metadata.json")).exists():
        SettingsFile(argos_metadata).require_all(layout.SETTINGS["package"])
        search |= layout.SETTINGS["argos_search"]
        splitter_paths = splitter_paths or _find_splitters(argos_metadata.parent)
    # Of source and target, or one for both: the first is the source's, the last the target's.
    # Without any, text is words.
    spms = [imported.read_sentencepiece(path) for path in splitter_paths] or [b""]
    source = _read_side("source", config, file.table(layout.SOURCE), spms[0])
    target = _read_side("target", config, file.table(layout.TARGET), spms[-1])
    tables = _tables(file, source.ids, target.ids)
    arguments = _arguments(file, config, tables) | _position_arguments(file, tables)
    arguments["start_id"] = _start_id(file, config, target, tables["embedding/table"])
    file.check_size(arguments)
    # CTranslate2 counts layers from 0. Below 0, its default among them, ours is kept.
    if (layer := file.scalars.value("decoder/alignment_layer", -1)) >= 0:
        search["Aligner.layer"] = layer + 1
    model = Transformer(**arguments)
    model.build()
    _assign_weights(model, file, tables)
    config.warn({"bos_token"})
    decoding = imported.decoding_bindings("a model of CTranslate2", search)
    return ImportedModel(model, imported.ImportedText(source, target), decoding, layout.MODEL)


class _ModelBin(imported.WeightsFile):
    """The variables of a model.bin.

    Attributes:
        scalars: the variables without axes, such as the number of heads.
        d_model: width of the model.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_model_bin)
        scalars = {name: array.item() for name, array in self.arrays.items() if not array.ndim}
        self.scalars = SettingsFile(path, lambda _: scalars)
        # 0 if the file lacks the table: then `table` raises the error.
        self.d_model = np.shape(self.arrays.get(layout.SOURCE, [[]]))[-1]

    def table(self, name: str) -> Array:
        """Returns a matrix [rows, d_model], of as many rows as it has, as float32.

        Raises:
            UserError: it is missing, is no such matrix, or is not of finite floats.
        """
        return self.value(name, (len(self.arrays.get(name, ())), self.d_model))


def _find_splitters(folder: Path) -> list[Path]:
    """Finds the SentencePiece models in a folder: of source and target, one for both, or none.

    Raises:
        UserError: there are too many, one of two sides has none, or one is a bpe.model.
    """
    # Sorted by name: the source's is the first.
    paths = [path for path in imported.files_in(folder) if path.suffix in (".spm", ".model")]
    names = [path.name for path in paths]
    # One for each side if a name says so.
    allowed_counts = [2] if any(name.startswith(("source", "target")) for name in names) else [0, 1]
    if "bpe.model" in names or len(paths) not in allowed_counts:
        problem = f"{folder} has {', '.join(names)}, expected one SentencePiece model or one a side"
        raise UserError(f"{problem}: give --sentencepiece; bpe.model cannot be imported.")
    return paths


def _read_side(side: str, config: SettingsFile, table: Array, splitter: bytes) -> ImportedSide:
    """Reads the vocabulary of a side, which lies beside config.json, in our order of ids.

    Args:
        side: "source" or "target"; a vocabulary of both, if there is one, counts instead.
        config: the settings, with the names of special tokens.
        table: the embeddings of the side, [vocab, d_model].
        splitter: its SentencePiece model; b"" where text is words.

    Raises:
        UserError: the vocabulary and the table have different sizes, EOS is missing where it is
            needed, or EOS and UNK are the same token.
    """
    names = product(("shared", side), ("json", "txt"))
    paths = [config.path.with_name(f"{name}_vocabulary.{suffix}") for name, suffix in names]
    # The first that exists. If there is none, the error names the first.
    path = next(filter(Path.exists, paths), paths[0])
    tokens = imported.read_file(path, _read_tokens)
    # Reversed, so that of equal tokens the first one counts.
    ids = {token: number for number, token in reversed([*enumerate(tokens)])}
    eos_token, unk_token = config.value("eos_token", "</s>"), config.value("unk_token", "<unk>")
    eos, unk = ids.get(eos_token, _NO_EOS), ids.get(unk_token, _NO_UNK)
    # A translation ends with EOS; sources do so in some models.
    needs_eos = side == "target" or config.value("add_source_eos", False)
    if len(tokens) != len(table) or eos == unk or (needs_eos and eos == _NO_EOS):
        needed = f"{len(table)} with {eos_token} and {unk_token}: copy the model's vocabulary"
        raise UserError(f"{path} has {len(tokens)} tokens, expected {needed}.")
    pad = _pad_id(config.value("decoder_start_token", ""), ids, (eos, unk), table)
    # One of the pattern's two groups has the code, the other is empty.
    pieces = {number: _LANGUAGE.sub(r">>\1\2<<", token) for token, number in ids.items()}
    # The names of special tokens that the vocabulary lacks; unused for those that it has.
    pieces |= {_NO_PAD: "<pad -1>", _NO_EOS: eos_token, _NO_UNK: unk_token}
    file = MarianFile(splitter, [], kind="pieces" if splitter else "words")
    return ImportedSide.in_our_order(file, pieces, [pad, eos, unk], len(tokens))


def _pad_id(start_token: str, ids: Mapping[str, int], taken: Sequence[int], table: Array) -> int:
    """Returns the id of the token that can be PAD, or `_NO_PAD` if there is none.

    Our embedding of PAD is zero. So it is the first of "<pad>", "<blank>" and `start_token` that
    has a row of zeros, and is not EOS or UNK.

    Args:
        start_token: the token with which a translation begins, in Marian's models PAD; "" for none.
        ids: the id of every token.
        taken: the ids of EOS and UNK.
        table: the embeddings, [vocab, d_model].
    """
    for token in ("<pad>", "<blank>", start_token):
        if token in ids and ids[token] not in taken and not table[ids[token]].any():
            return ids[token]
    return _NO_PAD


def _read_tokens(path: Path) -> list[str]:
    """Reads the tokens in the order of ids: from lines, or in JSON from a list or a map to ids.

    Raises:
        ValueError: the file is damaged, or the ids of a map are not 0, 1, 2 and so on.
    """
    text = read_at_most(path, MAX_FILE_BYTES).decode()
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    tokens = json.loads(text) if path.suffix == ".json" else lines
    if isinstance(tokens, dict):
        if sorted(tokens.values()) != [*range(len(tokens))]:
            raise ValueError("its ids are not 0, 1, 2 and so on")
        tokens = sorted(tokens, key=tokens.__getitem__)
    return [str(token) for token in tokens]


def _start_id(file: _ModelBin, config: SettingsFile, target: ImportedSide, table: Array) -> int:
    """Returns our id of the token with which a translation begins; PAD for a zero vector.

    `table` has the embeddings of the target in our order, [ids, d_model].

    Raises:
        UserError: the token is not in the target's vocabulary.
    """
    token = config.value("decoder_start_token", "")
    if token not in target.file.pieces:
        raise config.refused("decoder_start_token", "a token of the target's vocabulary")
    start = target.file.pieces.index(token)
    is_zero = file.scalars.value("decoder/start_from_zero_embedding", 0)
    return PAD_ID if is_zero or not table[start].any() else start


def _tables(file: _ModelBin, source: Ids, target: Ids) -> dict[str, Array]:
    """Returns embeddings, softmax and logits' bias in our order, by our names.

    Tables with equal numbers are tied: they are one table, under one name. The bias is left out
    where the model needs none.

    Args:
        file: the model.bin.
        source: the file's id of each of our ids of the source, below 0 where it has none: [ids].
        target: the same of the target.
    """
    source_rows = _in_our_order(file.table(layout.SOURCE), source) * _scale(file, "encoder")
    target_rows = _in_our_order(file.table(layout.TARGET), target) * _scale(file, "decoder")
    softmax = _in_our_order(file.table(layout.SOFTMAX), target)
    # Tables are compared without row 0, of PAD: embeddings do not look it up.
    tables = {"embedding/table": target_rows, "softmax/table": softmax}
    if np.array_equal(softmax[1:], target_rows[1:]):
        # Tied: the table is the softmax's, which needs the row of PAD.
        tables = {"embedding/table": softmax}
    is_shared = np.array_equal(source, target) and np.array_equal(source_rows[1:], target_rows[1:])
    if not is_shared:
        tables["source_embedding/table"] = source_rows
    has_bias = layout.LOGITS_BIAS in file.arrays
    # The logits of added rows, with ids below 0, need a bias that keeps them out of the softmax.
    if has_bias or target.min() < 0:
        rows = len(file.arrays[layout.TARGET])
        bias = file.value(layout.LOGITS_BIAS, (rows,)) if has_bias else np.zeros(rows, np.float32)
        tables["logits_bias"] = _in_our_order(bias, target, imported.NEVER)
    return tables


def _in_our_order(table: Array, ids: Ids, fill: float = 0.0) -> Array:
    """Returns the rows `ids` of a table [rows, ...]; rows of ids below 0 are filled with `fill`."""
    # Ids below 0 count from the end, where the added rows are.
    added = np.full((3, *table.shape[1:]), fill, np.float32)
    return np.concatenate([table, added])[ids]


def _scale(file: _ModelBin, stack: str) -> float:
    """Returns the factor of a stack's embeddings, divided by ours: √d_model."""
    ours = np.float32(file.d_model**0.5)
    factor = file.scalars.value(f"{stack}/scale_embeddings")
    # A float is the factor itself. Any other value is a flag for ours, on if it is missing.
    if not isinstance(factor, float):
        factor = 1.0 if factor == 0 else ours
    return float(np.float32(factor) / ours)


def _arguments(file: _ModelBin, config: SettingsFile, tables: dict[str, Array]) -> dict[str, Any]:
    """Returns the arguments of the `Transformer`, except for its positions and `start_id`."""
    # All stacks have these in common. The values are those where the file has no such scalar.
    defaults = {"num_heads": 8, "head_dim": None, "activation": 0, "pre_norm": 1}
    common = {name: _common_scalar(file.scalars, name, defaults[name]) for name in defaults}
    source = tables.get("source_embedding/table")
    activations = {number: name for name, number in layout.ACTIVATIONS.items()}
    layers = LayerConfig(
        file.d_model,
        d_ff=len(file.table("encoder/layer_0/ffn/linear_0/weight")),
        num_heads=common["num_heads"],
        d_k=common["head_dim"],
        d_v=common["head_dim"],
        normalization="pre" if common["pre_norm"] else "post",
        activation=file.scalars.one_of("encoder/activation", activations, 0),
        # CTranslate2's default.
        norm_epsilon=config.value("layer_norm_epsilon", 1e-5),
        attention_biases=any(re.search(r"attention/linear_./bias$", name) for name in file.arrays),
    )
    return {
        "vocab_size": len(tables["embedding/table"]),
        "source_vocab_size": None if source is None else len(source),
        "num_layers": imported.count_layers(file.arrays, "encoder/layer_"),
        "num_decoder_layers": imported.count_layers(file.arrays, "decoder/layer_"),
        "config": layers,
        "tied_embeddings": imported.TIED[source is None, "softmax/table" not in tables],
        "logits_bias": "logits_bias" in tables,
        "source_eos": config.value("add_source_eos", False),
    }


def _common_scalar(scalars: SettingsFile, field: str, default: int | None) -> Any:
    """Returns the value that a field has in all stacks, or the default where the file has none.

    Of "num_heads" it is the value of "encoder/num_heads" and of "decoder/num_heads".

    Raises:
        UserError: the values differ.
    """
    names = [name for name in scalars.values if name.endswith(f"/{field}")]
    value = scalars.values[names[0]] if names else default
    for name in names:
        scalars.require(name, value)
    return value


def _position_arguments(file: _ModelBin, tables: dict[str, Array]) -> dict[str, Any]:
    """Returns the `Transformer`'s arguments for positions; adds learned ones to `tables`.

    Without tables, CTranslate2 computes OpenNMT-tf's sinusoids. Tables that hold one of our
    `SINUSOIDS` for both stacks, up to rounding, become it. Any others become learned positions, cut
    to the length of the shorter table.
    """
    if not layout.POSITIONS.keys() & file.arrays.keys():
        # CTranslate2 then computes OpenNMT-tf's sinusoids.
        return {"positional_encoding": "concatenated", "first_position": 1}
    encodings = {ours: file.table(name) for name, ours in layout.POSITIONS.items()}
    length = min(map(len, encodings.values()))
    # Toolkits number the first position 0, 1 or 2.
    for kind, first in product(SINUSOIDS, range(3)):
        positions = np.arange(first, first + length)
        expected = SINUSOIDS[kind](positions, file.d_model)
        # [stack, position, d_model]
        errors = [abs(table[:length] - expected) for table in encodings.values()]
        # Those in float32 differ by rounding, which grows with the position, as the angle does.
        if (np.max(errors, axis=(0, 2)) <= 1e-6 * (10 + positions)).all():
            return {"positional_encoding": kind, "first_position": first}
    tables |= {ours: table[:length] for ours, table in encodings.items()}
    return {"positional_encoding": "learned", "max_length": length}


def _assign_weights(model: Transformer, file: _ModelBin, tables: Mapping[str, Array]) -> None:
    """Assigns all weights of a model: those of its layers from `file`, the others from `tables`.

    Raises:
        UserError: the file lacks weights, has others, or has a scalar of something that we lack.
    """
    for variable in model.trainable_variables:
        if name_of(variable) in tables:
            variable.assign(tables[name_of(variable)])
    names = {layout.SOURCE, layout.TARGET, layout.SOFTMAX, layout.LOGITS_BIAS, *layout.POSITIONS}
    for weight in layer_weights(model):
        names.add(layout.place_of(weight)[0])
        weight.variable.assign(_layer_value(file, weight, model.config.key_depth))
    file.check_names({*names, *file.scalars.values})
    understood = {*file.scalars.known, *layout.SETTINGS["without_effect"]}
    # All other scalars must be 0.
    for name in file.scalars.values.keys() - understood:
        file.scalars.require(name)


def _layer_value(file: _ModelBin, weight: LayerWeight, key_depth: int) -> Array:
    """Returns the value of a layer's weight, cut out of the file's matrix and transposed.

    Queries of another scale than our 1 / √key_depth are multiplied by what makes up for it.

    Raises:
        UserError: the matrix is missing, or has another shape.
    """
    name, part, part_count = layout.place_of(weight)
    rows, *columns = weight.variable.shape[::-1]
    # The matrix has all parts, one below the other.
    shape = rows * part_count, *columns
    # Some toolkits have biases in some matrices only.
    is_missing = weight.kind == "bias" and name not in file.arrays
    matrix = np.zeros(shape, np.float32) if is_missing else file.value(name, shape)
    value = np.split(matrix, part_count)[part]
    if weight.part == "query":
        # Our attention has this factor, and no other.
        ours = key_depth**-0.5
        scale = file.scalars.value(layout.scale_of(weight), ours)
        value = value * (np.float32(scale) / np.float32(ours))
    return value.T
