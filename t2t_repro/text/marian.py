"""The subwords of a Marian model, in Hugging Face's form or in Marian's own.

Each side has a SentencePiece model that splits its text into pieces. A vocabulary, usually one for
both sides, maps pieces to ids. It may lack pieces of a side's model, and may have others:

1.  A language code at the beginning, such as `>>fra<<`, is one piece: from `>>` to the first `<<`.
2.  SentencePiece splits the rest. A run of characters that it does not know is one piece.
3.  Each piece has its id of the vocabulary, or UNK.

`</s>`, `<unk>` and `<pad>` within a text are plain text.

The kinds of text differ in these points:

    hugging_face   as `MarianTokenizer(split_special_tokens=True)`; decoding leaves UNK out, and
                   blanks at the ends
    pieces         as OPUS-MT's scripts; only a vocabulary that has language codes has step 1, and
                   decoding leaves blanks at the start out
    sentencepiece  as Marian with an .spm file: step 2 alone, the vocabulary is SentencePiece's
    words          as Marian with any other vocabulary: words between blanks have ids; no model

A source of M2M-100 or NLLB begins with the code of its target's language, or with its own and that:
`>>fra<< >>deu<< Bonjour`. Its first id is the target's code, which becomes the first of the target,
and the second its own.

The file is JSON on one line:

    marian        the version of the form, 1
    kind          see above; hugging_face if it is missing
    pieces        the name of every id: PAD, EOS, UNK, and the others
    punctuation   null
    clean_spaces  whether decoding removes spaces before punctuation
    languages     M2M-100 and NLLB: codes of source and target where a source has none; or []
    model         the SentencePiece model of this side, in base64
"""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from t2t_repro.errors import UserError, reason_of
from t2t_repro.text.characters import readable, visible
from t2t_repro.text.sentencepiece import NO_TAGS, MarkedSubwords, WordMarks, marks_end
from t2t_repro.vocabulary import EOS_ID, SPACE_MARK, UNK_ID, text_ids

if TYPE_CHECKING:
    from t2t_repro.text.in_graph import TextOps

# The beginning of the file, by which it is recognized.
FILE_START = b'{"marian":'

Kind = Literal["hugging_face", "pieces", "sentencepiece", "words"]

# These have the same matches in Python's `re` and in RE2, which the graph uses.
_LANGUAGE_CODE = "(?s)^>>.*?<<"
_CODE = re.compile(_LANGUAGE_CODE)
_TWO_CODES = "(?s)^(>>[^<> ]*<<)? *(>>[^<> ]*<<)? *(.*)$"

# Decoding removes the spaces of these texts, in this order.
_SPACED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


@dataclass(frozen=True)
class MarianFile:
    """The content of the file.

    Attributes:
        model: the file of the SentencePiece model; empty where words are split at blanks.
        pieces: the name of every id.
        clean_spaces: whether decoding removes spaces before punctuation.
        kind: the kind of text.
        languages: default codes of source and target, of which the target's may be ""; none where
            a target does not begin with a code.
    """

    model: bytes
    pieces: list[str]
    clean_spaces: bool = False
    kind: Kind = "hugging_face"
    languages: Sequence[str] = ()

    def content(self) -> bytes:
        """Returns the bytes of the file."""
        model = base64.b64encode(self.model).decode()
        # "marian" first: see `FILE_START`.
        values = {"marian": 1, "punctuation": None, **vars(self), "model": model}
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def read(cls, path: Path) -> "MarianFile":
        """Reads the file.

        Raises:
            UserError: the file is damaged; or the model was imported with --punctuation, which only
                earlier versions had.
        """
        try:
            values = json.loads(path.read_bytes())
            values["model"] = base64.b64decode(values["model"])
        except (ValueError, LookupError) as error:
            raise UserError(f"{path} is damaged ({reason_of(error)}): import it again.") from error
        del values["marian"]
        if values.pop("punctuation", None):
            raise UserError(f"{path} was imported with --punctuation: import the model again.")
        return cls(**values)


class _WordSplitter:
    """Splits texts at blanks and joins words, called as SentencePiece is; options are ignored."""

    def encode(self, texts: Sequence[str], **_: Any) -> list[list[str]]:
        """Returns the words of every text; runs of blanks split them."""
        return [[word for word in text.split(" ") if word] for text in texts]

    def decode_pieces(self, pieces: Sequence[str]) -> str:
        """Returns the text of words, with a blank between two."""
        return " ".join(pieces)


class MarianSubwords(MarkedSubwords):
    """The subwords of one side of a Marian model.

    Args:
        model_path: the file that `import_marian` wrote, see `MarianFile`.

    Attributes:
        content: the content of the file.
        ids: the id of every piece of text.
        code_pattern: regular expression of the language code at the beginning of a text, or, where
            a source names both languages, of two codes and the rest; None without codes.
        first_id: the lowest id that decoding writes.
        spaced: texts whose spaces decoding removes, one after the other.
        word_marks: the pieces at which words begin or end.

    Raises:
        UserError: see `MarianFile.read`.
    """

    def __init__(self, model_path: str | Path) -> None:
        self.model_path = Path(model_path)
        self.content = MarianFile.read(self.model_path)
        model, kind = self.content.model, self.content.kind
        self._model = SentencePieceProcessor(model_proto=model) if model else _WordSplitter()
        self._pieces = self.content.pieces
        self.ids = {piece: number for number, piece in enumerate(self._pieces) if number > UNK_ID}
        # transformers take a code off any text, OPUS-MT's scripts if the vocabulary has codes.
        is_opus_with_codes = kind == "pieces" and any(map(_CODE.fullmatch, self.ids))
        one_code = _LANGUAGE_CODE if kind == "hugging_face" or is_opus_with_codes else None
        self.code_pattern = _TWO_CODES if self.content.languages else one_code
        self.first_id = UNK_ID + 1 if kind == "hugging_face" else UNK_ID
        self.spaced = _SPACED if self.content.clean_spaces else ()
        marks = WordMarks.of(self._pieces, bool(model) and marks_end(model))
        # A language code is a word, too; without a model every piece is one.
        is_word = [not model or bool(_CODE.match(piece)) for piece in self._pieces]
        self.word_marks = marks._replace(marked=np.logical_or(marks.marked, is_word).tolist())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last.

        Args:
            lines: any text. A lone surrogate counts as "?". An empty one is EOS alone; of M2M-100
                and NLLB, EOS behind the codes of the languages.
        """
        texts = [visible(line).encode("utf-8", errors="replace").decode() for line in lines]
        splits = [self._split_codes(text) for text in texts]
        of_rests = self._model.encode([rest for _, rest in splits], out_type=str, num_threads=1)
        rows = [codes + pieces for (codes, _), pieces in zip(splits, of_rests, strict=True)]
        return [[self.ids.get(piece, UNK_ID) for piece in row] + [EOS_ID] for row in rows]

    def _split_codes(self, text: str) -> tuple[list[str], str]:
        """Returns the language codes of a text, in the order of its ids, and the rest.

        There are two codes if the file has languages, also where the text has none; otherwise there
        is the one at the beginning of the text, or none.
        """
        if not self.content.languages:
            # At most one, at the beginning.
            codes = re.findall(self.code_pattern, text) if self.code_pattern else []
            return codes, text[sum(map(len, codes)) :]
        # The pattern matches any text once, with "" for a missing code.
        ((first, second, rest),) = re.findall(_TWO_CODES, text)
        source, target = self.content.languages
        # One code alone is the target's.
        return [second or first or target, first if second else source], rest

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Encodes many lines, each stripped as `Translator` strips it.

        Args:
            lines: sentences; at least one.

        Returns:
            the ids of all lines, one line after the other, EOS at the end of each, [ids], and the
            number of ids of each line, [lines].
        """
        encoded = self.encode([line.strip() for line in lines])
        lengths = np.array([len(ids) for ids in encoded], np.int32)
        return np.concatenate(encoded).astype(np.int32), lengths

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence.

        Args:
            ids: [length]; ids after the first EOS are ignored. PAD, an id outside the vocabulary
                (embeddings may have more rows), Hugging Face's UNK, codes of M2M-100's and NLLB's
                languages, and bytes of no character are skipped.
        """
        valid = [token for token in text_ids(ids) if self.first_id <= token < self.size]
        pieces = [self._pieces[token] for token in valid]
        if self.content.languages:
            pieces = [piece for piece in pieces if not _CODE.fullmatch(piece)]
        text: str = self._model.decode_pieces(pieces)
        if self.content.kind in ("hugging_face", "pieces"):
            # SentencePiece keeps the marks of pieces that only the other side has.
            text = text.replace(SPACE_MARK, " ")
            text = text.strip() if self.content.kind == "hugging_face" else text.lstrip(" ")
        text = readable(text)
        for spaced in self.spaced:
            text = text.replace(spaced, spaced.strip())
        return text

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the file's content as it is; all symbols must be language codes of its pieces.

        Raises:
            UserError: a symbol is not a language code of the file.
        """
        codes = [piece for piece in self.ids if _CODE.fullmatch(piece)]
        if missing := [symbol for symbol in symbols if symbol not in codes]:
            problem = f"{self.model_path} has no language code {missing[0]}, and none can be added"
            expected = f"one of {', '.join(codes)}" if codes else "no tags"
            raise UserError(f"{problem}; expected {expected}: {NO_TAGS}.")
        return self.model_path.read_bytes()

    def in_graph(self) -> "TextOps":
        """Returns the same encoding and decoding as TensorFlow operations."""
        from t2t_repro.text.in_graph import MarianTextOps  # Takes seconds to import.

        return MarianTextOps(self)

    def sentencepiece(self) -> bytes:
        """Returns the SentencePiece model of this side.

        Raises:
            UserError: the side has a vocabulary of words instead.
        """
        if not self.content.model:
            problem = f"{self.model_path} has a vocabulary of words, expected a SentencePiece model"
            raise UserError(f"{problem}: give --format=saved_model.")
        return self.content.model
