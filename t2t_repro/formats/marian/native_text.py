"""Marian's vocabularies: SentencePiece's .spm, a map in .yml or .json, or lines of text.

A vocabulary that is no .spm has the ids of pieces. They are SentencePiece's where source.spm and
target.spm lie beside it, as OPUS-MT has them, and otherwise words between blanks. The rules are
those of marian-dev, src/data/default_vocab.cpp and sentencepiece_vocab.cpp.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from absl import logging
from sentencepiece import SentencePieceProcessor

from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most
from t2t_repro.formats.marian.fields import read_file
from t2t_repro.formats.marian.model import MarianSide, MarianText
from t2t_repro.text.marian import MarianFile
from t2t_repro.text.sentencepiece import MAX_FILE_BYTES

_EXPECTED = "the vocabulary of a Marian model: copy it again"
_EOS, _UNK = "</s>", "<unk>"

# PyYAML takes U+0085 and such for ends of lines, and refuses control characters.
_UNREADABLE = [*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF]
_STAND_IN = 0xF0000


def read_vocabularies(paths: tuple[Path, Path], rows: tuple[int, int]) -> MarianText:
    """Reads the vocabularies of source and target, with their SentencePiece models.

    Args:
        paths: of both vocabularies; one file may be both.
        rows: the numbers of ids that the model has on either side.

    Raises:
        UserError: a file is damaged, or belongs to another model.
    """
    source, target = (
        _read_side(path, count, path.with_name(f"{side}.spm"))
        for side, path, count in zip(("source", "target"), paths, rows, strict=True)
    )
    return MarianText(source, target)


def _read_side(path: Path, rows: int, splitter: Path) -> MarianSide:
    if path.suffix == ".spm":
        return _of_sentencepiece(path, rows)
    is_map = path.suffix in (".yml", ".yaml", ".json")
    ids: dict[str, int] = read_file(path, _read_map if is_map else _read_lines, _EXPECTED)
    if missing := [name for name in (_EOS, _UNK) if name not in ids]:
        raise UserError(f"{path} has no {missing[0]}, expected one: give the model's vocabulary.")
    eos, unk = ids[_EOS], ids[_UNK]
    pieces = {number: piece for piece, number in ids.items()}
    _check_size(path, pieces, rows, may_be_cut=(eos, unk) == (0, 1))
    if splitter.exists():
        model, _ = read_file(splitter, _read_sentencepiece, _EXPECTED)
        return _side(pieces, rows, eos, unk, MarianFile(model, [], kind="pieces"))
    if codes := [*path.parent.glob("*.bpe"), *path.parent.glob("bpe*")]:
        raise UserError(
            f"{codes[0]} splits words for this model, after Moses's tokenizer, expected source.spm "
            "and target.spm, SentencePiece's: such a model cannot be imported."
        )
    logging.info("%s has words: lines are split at blanks, as the training text was", path)
    return _side(pieces, rows, eos, unk, MarianFile(b"", [], kind="words"))


def _of_sentencepiece(path: Path, rows: int) -> MarianSide:
    model, processor = read_file(path, _read_sentencepiece, _EXPECTED)
    pieces = {number: processor.id_to_piece(number) for number in range(len(processor))}
    if len(pieces) != rows or processor.eos_id() < 0:
        raise _other_model(path, f"{len(pieces)} pieces, EOS with id {processor.eos_id()}", rows)
    file = MarianFile(model, [], kind="sentencepiece")
    return _side(pieces, rows, processor.eos_id(), processor.unk_id(), file)


def _read_sentencepiece(path: Path) -> tuple[bytes, SentencePieceProcessor]:
    model = read_at_most(path, MAX_FILE_BYTES)
    return model, SentencePieceProcessor(model_proto=model)


def _read_map(path: Path) -> dict[str, int]:
    text = read_at_most(path, MAX_FILE_BYTES).decode()
    if path.suffix == ".json":
        found: Any = json.loads(text)
    else:
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        hidden = text.removeprefix("\ufeff").translate({c: _STAND_IN + c for c in _UNREADABLE})
        # Not safe_load, for which "on" is true, and not a word.
        found = yaml.load(hidden, loader)
    if not isinstance(found, dict):
        raise ValueError("it is no map of pieces to ids")
    shown = {_STAND_IN + c: c for c in _UNREADABLE}
    ids = {str(piece).translate(shown): int(number) for piece, number in found.items()}
    if len({*ids.values()}) < len(ids) or min(ids.values(), default=-1) < 0:
        raise ValueError("an id is missing, negative, or there twice")
    pieces = {number: piece for piece, number in ids.items()}
    for number, (name, of_nematus) in enumerate(((_EOS, "eos"), (_UNK, "UNK"))):
        # Ids 0 and 1 without a name, or with Nematus's.
        if pieces.get(number, of_nematus) == of_nematus:
            ids[name] = number
    return ids


def _read_lines(path: Path) -> dict[str, int]:
    text = read_at_most(path, MAX_FILE_BYTES).decode()
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    ids = {line: number for number, line in enumerate(lines)}
    if "" in ids or len(ids) < len(lines):
        raise ValueError("it has empty lines, or one twice")
    return ids


def _check_size(path: Path, pieces: dict[int, str], rows: int, may_be_cut: bool) -> None:
    """Compares a vocabulary with the model, and removes from it what the model has cut off.

    Marian cuts off what is rarest, in a vocabulary that is sorted by frequency.
    """
    size = max(pieces) + 1
    is_padded = rows > size and (rows % 8 == 0 or rows % 100 == 0)
    if size == rows:
        return
    if not is_padded and not (rows < size and may_be_cut):
        raise _other_model(path, f"ids up to {size - 1}", rows)
    logging.warning("%s has ids up to %d, the model has %d", path, size - 1, rows)
    for number in [number for number in pieces if number >= rows]:
        del pieces[number]


def _other_model(path: Path, found: str, rows: int) -> UserError:
    return UserError(
        f"{path} has {found}, expected {rows} ids, as the model has, and EOS among them: give the "
        "model's own vocabulary."
    )


def _side(pieces: dict[int, str], rows: int, eos: int, unk: int, file: MarianFile) -> MarianSide:
    """Returns all rows of the model, in our order.

    Source and target with other pieces can share an embedding, so both have all rows.
    """
    # With a blank, so that no text has it.
    names = {number: f"<row {number}>" for number in range(rows)} | pieces
    names[-1] = "<pad>" if "<pad>" not in pieces.values() else "<pad -1>"
    return MarianSide.in_our_order(file, names, [-1, eos, unk], rows)
