"""The file of one side of a Marian model's text, looked through before anything is made of it.

It is JSON, all on one line:

    marian        the version of the form, 1
    pieces        what every id is called, by id: PAD, EOS, UNK, and the others
    punctuation   which rules it is normalised by first, see `data.moses_punctuation`; or null
    clean_spaces  whether blanks before punctuation are taken out of decoded text
    model         SentencePiece's model of this side, in base64
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from t2t_repro.files import read_json
from t2t_repro.strangers.sentencepiece_file import MAX_PIECE, MAX_PIECES, check_sentencepiece
from t2t_repro.vocabulary import UNK_ID

START = b'{"marian":'
"""What such a file begins with, and no file of other subwords does."""

_VERSION = 1
# OPUS-MT has names of whole groups of languages, such as fr+fr_BE+fr_CA.
_RULES = re.compile(r"unicode|moses:[\w+-]{1,500}", re.ASCII)


@dataclass(frozen=True)
class MarianFile:
    """What is in the file.

    Attributes:
        model: SentencePiece's, its file.
        pieces: what every id is called, by id.
        punctuation: by which rules it is normalised, or None.
        clean_spaces: whether blanks before punctuation are taken out of decoded text.
    """

    model: bytes
    pieces: list[str]
    punctuation: str | None
    clean_spaces: bool

    def content(self) -> bytes:
        """Returns the file's bytes; equal ones for equal content."""
        values = {
            "marian": _VERSION,
            "pieces": self.pieces,
            "punctuation": self.punctuation,
            "clean_spaces": self.clean_spaces,
            "model": base64.b64encode(self.model).decode("ascii"),
        }
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()


def read_marian_file(path: Path) -> MarianFile:
    """Reads the file and checks all of it.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no such file.
    """
    values = read_json(path)
    names = {"marian", "pieces", "punctuation", "clean_spaces", "model"}
    if not isinstance(values, dict) or values.keys() != names:
        raise ValueError(f"it has not {', '.join(sorted(names))}")
    if values["marian"] != _VERSION or isinstance(values["marian"], bool):
        raise ValueError(f"its form is another than {_VERSION}")
    if not isinstance(values["clean_spaces"], bool):
        raise ValueError("clean_spaces is neither true nor false")
    check_pieces(values["pieces"])
    check_punctuation(values["punctuation"])
    model = _decoded(values["model"])
    check_sentencepiece(model)
    return MarianFile(model, values["pieces"], values["punctuation"], values["clean_spaces"])


def check_pieces(pieces: Any) -> None:
    """Checks a list of pieces: texts, each once, of some length.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(pieces, list) or not UNK_ID < len(pieces) <= MAX_PIECES:
        raise ValueError("its pieces are no list of a vocabulary's length")
    if not all(isinstance(piece, str) and 0 < len(piece) <= MAX_PIECE for piece in pieces):
        raise ValueError(f"it has a piece that is no text of 1 to {MAX_PIECE} characters")
    if not "".join(pieces).isascii() and any(map(_is_no_text, pieces)):
        raise ValueError("it has a piece with half a character")
    if len(set(pieces)) < len(pieces):
        raise ValueError("it has a piece twice")


def check_punctuation(rules: Any) -> None:
    """Checks the name of rules of punctuation; or None.

    Raises:
        ValueError: it is something else.
    """
    if rules is None:
        return
    if not isinstance(rules, str) or not _RULES.fullmatch(rules):
        raise ValueError("its punctuation is neither unicode nor moses:en, or another language")


def _is_no_text(piece: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in piece)


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError("its model is not in base64") from error
