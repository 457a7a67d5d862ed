"""Shared by the importers: files of other toolkits, and the model in them, in our terms.

A setting that decides weights, ids or what is computed of them is honoured, or refused by name. Any
other one is harmless where its value is false, null, 0 or empty; otherwise a warning names it,
except in T2T's hparams and Argos's metadata.
"""

import fnmatch
import gzip
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np
import yaml
from absl import logging
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from t2t_repro.decoding.loading import read_settings
from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.errors import BUGS, UserError, reason_of
from t2t_repro.files import read_json, write_whole
from t2t_repro.model.transformer import Transformer, gin_bindings
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.model_json import parameter_count
from t2t_repro.runs.records import Ancestor, weights_hash, write_ancestry
from t2t_repro.runs.weights import LayerWeight, layer_weights, name_of, named_values, save_weights
from t2t_repro.text.marian import MarianFile, MarianSubwords
from t2t_repro.text.subword_model import SOURCE_SUBWORDS, TARGET_SUBWORDS, SubwordPair, read_start
from t2t_repro.text.tags import Tags

Array = NDArray[np.float32]
Ids = NDArray[np.int64]
Value = TypeVar("Value")

# A logit that adds nothing to a sum of exponentials in float32.
NEVER = -1000.0

# `tied_embeddings`, by whether source and target, and target and softmax, share a table.
TIED = {
    (True, True): "all", (True, False): "source_target",
    (False, True): "target_softmax", (False, False): "none",
}  # fmt: skip

_WHOLE = "a file of the model that is whole: copy it again"
# A corpus or log beside a model stays as it is.
_PACKED = (".bin.gz", ".npz.gz", ".spm.gz", ".vocab.gz", ".yml.gz", ".json.gz", ".txt.gz")
_POINTER = b"version https://git-lfs"
# Commands, and names of the files that they read together. The first command whose files are there
# counts.
_KINDS = [
    ("translate", ["model.json", "config.gin"]),
    ("import_ctranslate2", ["model.bin", "config.json"]), ("import_hugging_face", ["config.json"]),
    ("import_marian", ["*.npz"]), ("import_marian", ["*.bin"]), ("import_marian", ["*.y*ml"]),
]  # fmt: skip

_ZIPS = (".zip", ".argosmodel")
_ARCHIVES = (*_ZIPS, ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
# Files that are no part of a model: hidden, outside an archive's folder, or an optimizer's.
NOT_A_MODEL = re.compile(r"(^|[/\\])(__MACOSX|\.[^/\\])|\.optimizer\.")


def read_file(path: Path, read: Callable[[Path], Value], expected: str = _WHOLE) -> Value:
    """Returns the content of a file; reports faults as a `UserError`.

    Args:
        path: path of the file.
        read: reads and returns the content.
        expected: for the error, a description of a good file, and how to get it.

    Raises:
        UserError: the file is missing, damaged or a pointer of Git LFS.
    """
    refuse_pointer(path)
    try:
        if path.is_file() and not path.stat().st_size:
            raise ValueError("it is empty")
        return read(path)
    except (UserError, *BUGS):
        raise
    except Exception as error:  # `read` calls any of a dozen libraries, which raise anything.
        reason = reason_of(error)
        raise UserError(f"{path} cannot be used ({reason}); expected {expected}.") from error


def read_sentencepiece(path: Path) -> bytes:
    """Reads a SentencePiece model, checks that it loads, and returns its bytes.

    Raises:
        UserError: the file is missing or damaged.
    """
    model = read_file(path, lambda path: SentencePieceProcessor(model_file=str(path)))
    return bytes(model.serialized_model_proto())


def refuse_pointer(path: Path) -> None:
    """Checks that a file is not a pointer of Git LFS.

    Raises:
        UserError: the file is such a pointer.
    """
    if read_start(path, len(_POINTER)) == _POINTER:
        problem = f"{path} is a pointer of Git LFS, expected the file itself"
        raise UserError(f"{problem}: run git lfs pull in its repository, or download the file.")


@contextmanager
def model_files(path: Path, *commands: str) -> Iterator[Path]:
    """Yields the path of a model's directory or file; a compressed one is unpacked for the context.

    Args:
        path: an archive, a directory or a file, as a user gives it.
        commands: names such as "import_marian", one of which must read the model; by default any.

    Raises:
        UserError: the archive cannot be used, there are several models, or none for the commands.
    """
    with tempfile.TemporaryDirectory() as unpacked, tempfile.TemporaryDirectory() as copies:
        try:
            model = _only_model(path.absolute())
            if _is_archive(model):
                room = f"a whole archive, and room for its files in {tempfile.gettempdir()}"
                read_file(model, lambda archive: _unpack(archive, unpacked), room)
                model = _only_model(Path(unpacked))
            model = _uncompressed(model, Path(copies))
            _check_kind(model, commands or [command for command, _ in _KINDS])
            yield model
        except UserError as error:
            # Also for errors of the caller: users know the path they gave, not the temporary ones.
            text = str(error).replace(unpacked, str(path)).replace(copies, str(path))
            raise UserError(text) from error


def _uncompressed(model: Path, copies: Path) -> Path:
    """Returns the directory or file to read a model from, with its .gz files decompressed.

    Args:
        model: the directory or file as it is.
        copies: an empty folder, to decompress files into.
    """
    # Weights or vocabularies that are compressed one by one; in a file, `glob` finds none.
    if any(file.name.endswith(_PACKED) for file in (model, *model.glob("*.gz"))):
        return _decompressed(model, copies)
    # A file beside a config.json stands for the directory.
    is_part = model.suffix in (".bin", ".h5", ".json", ".safetensors") and not model.is_dir()
    return model.parent if is_part and (model.parent / "config.json").exists() else model


def _check_kind(path: Path, commands: Collection[str]) -> None:
    """Checks by the names of its files that one of `commands` reads a model.

    Args:
        path: a directory, a file, or a path where nothing is.
        commands: names of commands, see `_KINDS`.

    Raises:
        UserError: no command reads it, or only another one, which is then named.
    """
    files = files_in(path) if path.is_dir() else [path]
    names = [file.name for file in files] if path.exists() else []
    reader = next((command for command, patterns in _KINDS if _has_all(names, patterns)), "")
    if reader not in commands:
        problem = f"{path} has {', '.join(names[:9])}" if names else f"{path} is missing or empty"
        hint = f", which python -m t2t_repro.{reader} reads" if reader else ""
        expected = [" with ".join(patterns) for command, patterns in _KINDS if command in commands]
        raise UserError(f"{problem}{hint}; expected {' or '.join(expected)}, unpacked.")


def _has_all(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Returns whether each pattern, such as "*.npz", matches a name."""
    return all(fnmatch.filter(names, pattern) for pattern in patterns)


def files_in(folder: Path) -> list[Path]:
    """Returns the paths directly in a folder, sorted, without those that are no part of a model."""
    return sorted(path for path in folder.iterdir() if not NOT_A_MODEL.search(path.name))


def _is_archive(path: Path) -> bool:
    """Returns whether a path is a file with the name of an archive."""
    return path.is_file() and path.name.lower().endswith(_ARCHIVES)


def _unpack(path: Path, folder: str) -> None:
    """Unpacks a model's files from a zip or tar archive into a folder.

    Raises:
        ValueError: they expand too much.
    """
    # Members have the same facts under other names: ZipInfo.filename is TarInfo.name.
    is_zip = path.suffix.lower() in _ZIPS
    open_archive: Any = zipfile.ZipFile if is_zip else tarfile.open
    # Both libraries keep members in the folder; tarfile does so with this filter.
    options = {} if is_zip else {"filter": "data"}
    name_field, size_field = ("filename", "file_size") if is_zip else ("name", "size")
    total = 0
    with open_archive(path) as archive:
        for member in archive.infolist() if is_zip else archive:
            # Windows may separate folders by backslashes.
            setattr(member, name_field, getattr(member, name_field).replace("\\", "/"))
            if not NOT_A_MODEL.search(getattr(member, name_field)):
                total += getattr(member, size_field)
                check_expanded(path, total)
                archive.extract(member, folder, **options)


def _decompressed(model: Path, copies: Path) -> Path:
    """Decompresses a model's .gz files into `copies`, beside links to its other files.

    Args:
        model: a directory, or one of the files of a model, whose name may end in .gz.
        copies: an empty folder.

    Returns:
        `copies`, or the file in it that stands for `model`.
    """
    for file in filter(Path.is_file, files_in(model if model.is_dir() else model.parent)):
        if file.name.endswith(_PACKED):
            read_file(file, lambda file: _gunzip(file, copies / file.stem))
        else:
            (copies / file.name).symlink_to(file.absolute())
    return copies if model.is_dir() else copies / model.stem


def _gunzip(file: Path, copy: Path) -> None:
    """Decompresses a .gz file to `copy`.

    Raises:
        ValueError: its content would be too large; nothing is written.
    """
    with gzip.open(file) as packed:
        # One byte more than allowed shows that there are too many.
        content = packed.read(_most_expanded(file) + 1)
    check_expanded(file, len(content))
    copy.write_bytes(content)


def _only_model(path: Path) -> Path:
    """Finds a model at or below a path: the only folder with its files, or else the only archive.

    If the path itself is such a folder, is a file, or has no model below, it is returned.

    Raises:
        UserError: there are several models below.
    """
    # Relative, as the path itself may lead through a hidden folder.
    below = [p for p in path.rglob("*") if not NOT_A_MODEL.search(str(p.relative_to(path)))]
    # The slash, as a tokenizer_config.json is no model.
    endings = "/config.json", ".npz", "decoder.yml", ".bin", ".bin.gz"
    models = {p.parent for p in below if str(p).endswith(endings)} or {*filter(_is_archive, below)}
    if len(models) > 1 and path not in models:
        names = ", ".join(map(str, sorted(models)))
        raise UserError(f"{path} has {names}: give one of these, unpacked, as --model.")
    return path if path in models or not models else models.pop()


def _most_expanded(path: Path) -> int:
    """Returns the most bytes that a file may expand to."""
    # 16 times its size; at least 16 MiB: a small file may expand by more, and does no harm.
    return 16 * max(path.stat().st_size, 2**20)


def check_expanded(path: Path, size: int) -> None:
    """Checks that a file which expands to `size` bytes cannot fill memory or disk.

    The limit is a multiple of the file's own size that weights stay below.

    Raises:
        ValueError: the file would expand to more bytes than allowed.
    """
    if size > _most_expanded(path):
        raise ValueError(f"it would expand to {size:,} bytes, more than {_most_expanded(path):,}")


def table_of(name: str) -> dict[str, Any]:
    """Reads a YAML file of this package by its path in it, such as "hugging_face/settings.yml"."""
    return dict(yaml.safe_load((resources.files(__package__) / name).read_text("utf-8")))


class SettingsFile:
    """The settings of a file, by field: each is honoured, refused by name or warned of.

    Args:
        path: path of the file.
        read: reads its fields, JSON by default.
        expected: as in `read_file`.

    Attributes:
        values: the values of all fields.
        known: names of the fields that were read or checked.
        ignored: descriptions of values that cannot be honoured, for the warning.
    """

    def __init__(self, path: Path, read: Callable = read_json, expected: str = _WHOLE) -> None:
        self.path = path
        self.values: dict[str, Any] = read_file(path, read, expected)
        self.known: set[str] = set()
        self.ignored: list[str] = []

    def value(self, name: str, default: Any = None) -> Any:
        """Returns a field's value, or the default where it is missing or null.

        The value has the type of the default, if that is not None; for a float it may be an int.

        Raises:
            UserError: the value has another type, or is not finite.
        """
        self.known.add(name)
        value = self.values.get(name)
        if value is None:
            return default
        kind = (int, float) if isinstance(default, float) else type(default)
        # As text: the value may be of any type.
        is_finite = str(value) not in ("nan", "inf", "-inf")
        if not is_finite or (default is not None and not isinstance(value, kind)):
            raise self.refused(name, "a number" if default is None else f"a value like {default!r}")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Returns a field's value, a whole number from 1 on, or the default where it is missing.

        Raises:
            UserError: the field has another value, or is missing without a default.
        """
        size = self.value(name, default)
        # Not isinstance: True is an int.
        if type(size) is not int or size < 1:
            raise self.refused(name, "a whole number from 1 on")
        return size

    def one_of(self, name: str, ours: Mapping[Any, Value], default: Any) -> Value:
        """Returns the item of `ours` for a field's value, or for the default where it is missing.

        Raises:
            UserError: there is no such item.
        """
        value = self.value(name, default)
        if value not in ours:
            raise self.refused(name, f"one of {', '.join(map(str, ours))}")
        return ours[value]

    def require(self, name: str, *expected: Any) -> None:
        """Checks that a field is missing, or has one of the expected values.

        If none are given, false, 0 and empty ones are expected.

        Raises:
            UserError: the field has another value.
        """
        value = self.value(name)
        is_expected = value in (None, *expected) if expected else not value
        if not is_expected:
            raise self.refused(name, " or ".join(map(repr, expected)) or "nothing")

    def require_all(self, fields: Mapping[str, Sequence[Any]]) -> None:
        """Checks fields, each with its expected values, as `require` does.

        Raises:
            UserError: a field has another value.
        """
        for name, expected in fields.items():
            self.require(name, *expected)

    def refused(self, name: str, expected: str) -> UserError:
        """Returns, for the caller to raise, the error for a value that cannot be imported."""
        problem = f"{self.path} has {name} = {self.values.get(name)!r}, expected {expected}"
        return UserError(f"{problem}: a model with another value cannot be imported.")

    def warn(self, harmless: Collection[str]) -> None:
        """Logs `ignored`, and all fields with a value that are neither known nor harmless."""
        known = {*self.known, *harmless}
        others = {name: value for name, value in self.values.items() if value and name not in known}
        ignored = [*self.ignored, *(f"{name} = {value!r}" for name, value in others.items())]
        if ignored:
            logging.warning(f"{self.path} has settings without effect here: {', '.join(ignored)}")


class WeightsFile:
    """The weights of a file, by their names there.

    Args:
        path: the file.
        read: reads it: by name, the weights in the types that they have there.

    Attributes:
        path: as given.
        arrays: what `read` returns.

    Raises:
        UserError: the file is missing, or cannot be read.
    """

    def __init__(self, path: Path, read: Callable[[Path], dict[str, NDArray]]) -> None:
        self.path = path
        self.arrays = read_file(path, read)

    def value(self, name: str, shape: tuple[int, ...]) -> Array:
        """Returns a weight as float32 of this shape; in the file, an axis of 1 may precede it.

        Raises:
            UserError: the weight is missing, has another shape, or is not of finite floats.
        """
        array = self.arrays.get(name)
        if array is None or array.shape not in (shape, (1, *shape)):
            shown = "no such weight" if array is None else array.shape
            problem = f"{self.path} has {shown} for {name}, its settings say {shape}"
            raise UserError(f"{problem}: give the files of one model.")
        # Integers would need scales; NumPy's kind of bfloat16 is V.
        value = array.astype(np.float32) if array.dtype.kind in "fV" else None
        if value is None or not np.isfinite(value).all():
            problem = f"{self.path} has {array.dtype} numbers in {name}, expected finite floats"
            raise UserError(f"{problem}: copy it again, or give the model before it was rounded.")
        return value.reshape(shape)

    def check_size(self, sizes: Mapping[str, Any]) -> None:
        """Checks, before a `Transformer` with these arguments is built, that the file can fill it.

        Raises:
            UserError: the model has more than twice as many weights as the file.
        """
        needed = parameter_count(sizes)
        # Twice: a few may be missing, such as the row of PAD in Marian's files.
        if needed > 2 * sum(array.size for array in self.arrays.values()):
            problem = f"{self.path} has fewer weights than the {needed:,} of the model's settings"
            raise UserError(f"{problem}: give the files of one model.")

    def check_names(self, known: Collection[str]) -> None:
        """Checks that all weights of the file have `known` names, those of the model.

        Raises:
            UserError: the file has other weights.
        """
        if others := self.arrays.keys() - known:
            problem = f"{self.path} has the weights {', '.join(sorted(others)[:3])}"
            raise UserError(f"{problem}, expected those of its settings: it cannot be imported.")


class WeightNames:
    """The names of a layer's weights in another toolkit.

    Args:
        toolkit: the name of its table in weights.yml, such as "marian".
    """

    def __init__(self, toolkit: str) -> None:
        self.table = table_of("weights.yml")[toolkit]

    def of(self, weight: LayerWeight, sublayer: str | None = None, **values: str) -> str:
        """Returns the toolkit's name of a weight, such as Marian's "encoder_l1_self_Wq".

        Args:
            weight: the weight of our model.
            sublayer: the row of the table; that of the weight's sub-layer by default.
            values: values of further placeholders in the table's names, such as {hook}.
        """
        # The norm after the last layer is of the stack itself, and its name is complete.
        name = self.table[sublayer or weight.sublayer or "stack"][weight.part]
        prefix = self.table["prefix"] if weight.sublayer else ""
        values["kind"] = self.table["kinds"].get(weight.kind, weight.kind)
        return str(prefix + name).format(**weight._asdict() | values, number=weight.layer + 1)


def count_layers(names: Iterable[str], start: str) -> int:
    """Counts the layers in names such as "encoder/layer_0/ffn", for the start "encoder/layer_"."""
    matches = (re.match(rf"{start}\d+/", name) for name in names)
    return len({match[0] for match in matches if match})


def named_weights(
    model: Transformer, tables: Mapping[str, str], their_name: Callable[[LayerWeight], str]
) -> dict[str, tuple[keras.Variable, str]]:
    """Lists the weights of a model by their names in another toolkit.

    Args:
        model: built.
        tables: by our name of each weight with a row for each id, their name, such as
            {"softmax/table": "lm_head.weight"}.
        their_name: returns their name of a layer's weight.

    Returns:
        by name, each weight and the side whose ids its rows have: "source", "target" (a table of
        both, too: they have the same ids), or "" for weights of layers.
    """
    weights = {their_name(weight): (weight.variable, "") for weight in layer_weights(model)}
    for variable in model.trainable_variables:
        if (name := name_of(variable)) in tables:
            weights[tables[name]] = variable, "source" if name.startswith("source") else "target"
    return weights


class ImportedSide(NamedTuple):
    """The text of one side.

    Attributes:
        file: its file in a model directory.
        ids: the model's id of each of our ids, below 0 where it has none: [ids].
    """

    file: MarianFile
    ids: Ids

    @classmethod
    def in_our_order(
        cls, file: MarianFile, names: Mapping[int, str], special: Sequence[int], rows: int
    ) -> "ImportedSide":
        """Returns a side with PAD, EOS and UNK first, and all other ids in the model's order.

        Args:
            file: the file of the side, still without pieces.
            names: the names of the model's ids that have one.
            special: the model's ids of PAD, EOS and UNK.
            rows: the number of the model's ids.
        """
        ids = [*special, *(number for number in range(rows) if number not in special)]
        # No text has a piece with a blank, so these are never looked up.
        pieces = [names.get(number, f"<row {number}>") for number in ids]
        return cls(replace(file, pieces=pieces), np.array(ids, np.int64))


class ImportedText(NamedTuple):
    """The text of a model.

    Attributes:
        max_length: the most subwords of a sentence, EOS included; None or 2**31 without a limit.
    """

    source: ImportedSide
    target: ImportedSide
    max_length: int | None = None

    def write(self, folder: Path) -> SubwordPair:
        """Writes the subword model of each side into a directory, and opens both."""
        sides = {SOURCE_SUBWORDS: self.source, TARGET_SUBWORDS: self.target}
        for name, side in sides.items():
            write_whole(folder / name, side.file.content())
        return SubwordPair(*(MarianSubwords(folder / name) for name in sides))


class ImportedModel(NamedTuple):
    """A model of another toolkit, in our terms.

    Attributes:
        model: the Transformer, built and loaded; ids are in our order.
        text: its subwords.
        decoding: gin bindings of its search and limits, see `decoding_bindings`.
        weights: the name of the file that had its weights.
        shortlist: a student's shortlist, if it came with one; ids are ours.
    """

    model: Transformer
    text: ImportedText
    decoding: str
    weights: str
    shortlist: ShortlistFile | None = None


def decoding_bindings(origin: str, settings: Mapping[str, object]) -> str:
    """Returns lines of gin for {"BeamSearch.beam_size": 4}, below a comment that names `origin`.

    Texts are gin's own code, such as "@MarianSearch()": they get no quotes.
    """
    bindings = "".join(f"{name} = {value}\n" for name, value in settings.items())
    return f"# Imported from {origin}:\n{bindings}"


def write_model_directory(
    folder: Path, model: Transformer, subwords: SubwordPair, decoding: str, step: int
) -> ModelDirectory:
    """Writes a model directory, and returns it; `step` is the number of its only checkpoint."""
    directory = ModelDirectory(folder)
    config = decoding + gin_bindings(model)
    # The operative configuration is the same: no run has bound other values.
    directory.write_metadata(model, subwords, config, config)
    save_weights(model, directory.checkpoints, step)
    return directory


def write_imported(folder: Path, imported: ImportedModel, name: str, commit: str | None) -> None:
    """Writes the model directory of an imported model, with the origin of its weights.

    Args:
        folder: the directory to write.
        imported: the model.
        name: its path, or its name on the hub.
        commit: its revision on the hub; None for a path.

    Raises:
        UserError: a setting of its search is not one of ours, or the disk is full or fails.
    """
    folder.mkdir(exist_ok=True)
    subwords = imported.text.write(folder)
    directory = write_model_directory(folder, imported.model, subwords, imported.decoding, step=0)
    # Raises the error now that decoding would raise later.
    read_settings(directory)
    checkpoint = f"{imported.weights}@{commit}" if commit else imported.weights
    # No rows of embeddings were carried over, and none added.
    ancestor = Ancestor(name, checkpoint, weights_hash(named_values(imported.model)), {}, {})
    if imported.shortlist:
        imported.shortlist.write(directory.shortlist_npz)
    write_ancestry(directory.ancestry_json, [ancestor])
    Tags(subwords.source.pieces(), subwords.languages).log()
