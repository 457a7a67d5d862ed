"""Reads a model as Marian itself wrote it: model.npz, vocabularies and decoder.yml."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.fields import Fields, read_file
from t2t_repro.formats.marian.model import MarianModel, MarianText
from t2t_repro.formats.marian.native_model import NativeModel, parse_yaml
from t2t_repro.formats.marian.native_text import read_vocabularies
from t2t_repro.vocabulary import UNK_ID

_WITHOUT_EFFECT = {
    "alignment", "cpu-threads", "devices", "log-level", "max-length-crop", "maxi-batch",
    "maxi-batch-sort", "mini-batch", "mini-batch-words", "models", "n-best", "precision", "quiet",
    "quiet-translation", "relative-paths", "skip-cost", "version", "vocabs", "workspace",
}  # fmt: skip
"""Fields of decoder.yml that change no translation."""

_CONTROL_BYTES = {f"<0x{byte:02X}>" for byte in range(32)}
_EXPECTED = "a file as Marian or OPUS-MT wrote it: copy it again"


def read_native(path: Path, vocabularies: Sequence[Path] = ()) -> list[MarianModel]:
    """Reads a model that Marian trained; several if they are an ensemble.

    Args:
        path: of a directory, a zip file, an .npz file or a decoder.yml.
        vocabularies: of source and target, or one for both; those of decoder.yml by default.

    Raises:
        UserError: a file is missing or damaged, the files do not belong together, or the model is
            none that `Transformer` can be.
    """
    with _unpacked(path) as place:
        models, texts, decoder = _find(place, vocabularies)
        return [_read(model, texts, decoder, len(models) > 1) for model in models]


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """Yields a directory with what a zip file holds; any other path as it is."""
    if path.suffix != ".zip":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        read_file(path, lambda archive: shutil.unpack_archive(archive, folder), _EXPECTED)
        inside = [*Path(folder).iterdir()]
        yield inside[0] if len(inside) == 1 and inside[0].is_dir() else Path(folder)


def _find(path: Path, vocabularies: Sequence[Path]) -> tuple[list[Path], tuple[Path, Path], Fields]:
    """Finds the files of a model: those that decoder.yml names, or else the only ones there.

    Returns:
        the .npz files, several of an ensemble; the vocabularies of source and target; the fields
        of decoder.yml.
    """
    folder = path if path.is_dir() else path.parent
    is_model = path.suffix == ".npz"
    if is_model:
        beside = path.with_name(f"{path.name}.decoder.yml"), folder / "decoder.yml"
        decoders = [one for one in beside if one.exists()]
    else:
        decoders = _only(folder, "decoder.yml", "*decoder.yml") if path.is_dir() else [path]
    read = (lambda file: parse_yaml(file.read_bytes())) if decoders else (lambda _: {})
    fields = Fields([*decoders, path][0], read, _EXPECTED)
    models = [path] if is_model else _beside(folder, fields.value("models", []))
    models = models or _only(folder, "model.npz", "*.npz")
    texts = [*vocabularies] or _beside(folder, fields.value("vocabs", []))
    texts = texts or _only(folder, "vocab.spm", "*vocab*")
    if not models or not texts:
        raise UserError(
            f"{path} has no {'vocabulary' if models else 'model.npz'}, and no decoder.yml that "
            "names one; expected Marian's model.npz, its vocabulary and decoder.yml: give the "
            ".npz file as --model, and its vocabulary as --vocab, twice for source and target."
        )
    return models, (texts[0], texts[-1]), fields


def _only(folder: Path, name: str, pattern: str) -> list[Path]:
    """Returns the file of a name, or else the only one of a pattern; none if there is none."""
    if (file := folder / name).exists():
        return [file]
    found = [file for file in sorted(folder.glob(pattern)) if ".optimizer." not in file.name]
    if len(found) > 1:
        raise UserError(
            f"{folder} has {', '.join(file.name for file in found)}, expected one: give the one "
            "that you mean, an .npz or a decoder.yml as --model, a vocabulary as --vocab."
        )
    return found


def _beside(folder: Path, names: Sequence[str]) -> list[Path]:
    """Returns the files of these names, which may have lain in another directory."""
    paths = [folder / name for name in names]
    return [path if path.exists() else folder / path.name for path in paths]


def _read(
    path: Path, vocabularies: tuple[Path, Path], decoder: Fields, is_ensemble: bool
) -> MarianModel:
    file = NativeModel(path)
    text = read_vocabularies(vocabularies, file.rows)
    model = file.build(text.source.ids, text.target.ids)
    return MarianModel(model, text, _decoding(decoder, text, is_ensemble), path.name)


def _decoding(fields: Fields, text: MarianText, is_ensemble: bool) -> str:
    """Returns the gin bindings that search as decoder.yml says, or as Marian does by default."""
    weights = fields.value("weights", [])
    if any(weight != 1 for weight in weights):
        raise fields.refused("weights", "1 for every model")
    pieces = text.target.file.pieces
    forbidden = [] if fields.value("allow-unk") else [UNK_ID]
    if not fields.value("allow-special"):
        forbidden += [number for number, piece in enumerate(pieces) if piece in _CONTROL_BYTES]
    lines = {
        "Translator.search": "@MarianSearch()",
        "MarianSearch.beam_size": fields.size("beam-size", 12),
        "MarianSearch.length_penalty": float(fields.value("normalize", 0.0)),
        "MarianSearch.word_penalty": float(fields.value("word-penalty", 0.0)),
        "Translator.forbidden_ids": tuple(forbidden),
        "Translator.max_length_factor": float(fields.value("max-length-factor", 3.0)),
        "Translator.max_extra_length": 0,
        "Translator.max_source_length": fields.size("max-length", 1000),
    }
    if is_ensemble:
        lines["Translator.ensemble"] = "@sum_log_probabilities"
    fields.warn(_WITHOUT_EFFECT)
    bindings = "".join(f"{name} = {value}\n" for name, value in lines.items())
    return f"# Imported from a model of Marian, with the search of {fields.path.name}:\n{bindings}"
