"""The subwords of a Marian model, applied as Hugging Face's `MarianTokenizer` does.

Either side has a SentencePiece model, which cuts its text into pieces. A list, mostly one for both
sides, gives each piece its id. So a piece of one side's model may have no id, and one that its
model does not know may have one:

1.  A language code in front, `>>fra<<`, is a piece by itself: from `>>` to the first `<<`.
2.  The rest is cut by SentencePiece. A run of characters unknown to it is one piece.
3.  Each piece has the id that the list gives it, or UNK.

Text is text: `</s>`, `<unk>` and `<pad>` in it are the characters that they are written with.
(`MarianTokenizer` does so when it is told `split_special_tokens=True`; otherwise whoever writes
the text could end a sentence within it.)
"""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.strangers.marian_file import read_marian_file
from t2t_repro.text.moses_punctuation import punctuation_normalizer
from t2t_repro.text.word_ids import read_ids
from t2t_repro.text.word_marks import SPACE_MARK, WordMarks, label, marks_end
from t2t_repro.vocabulary import EOS_ID, UNK_ID

LANGUAGE_CODE = "(?s)^>>.*?<<"
"""What stands in front of a text, by itself; RE2 and Python's `re` find the same."""

CLEANED_SPACES = (
    *(" .", " ?", " !", " ,"),
    " ' ",
    *(" n't", " 'm", " 's", " 've", " 're"),
)
"""What loses its blanks where `clean_spaces` is asked for, in this order."""

_CODE = re.compile(LANGUAGE_CODE)


class MarianSubwords:
    """The text of one side of a Marian model: to ids and back.

    Args:
        model_path: the file, see `strangers.marian_file`; `import_marian` writes it.

    Attributes:
        content: what is in the file.
        ids: of every piece that text can have.

    Raises:
        UserError: there is no such file, or it cannot be used.
    """

    def __init__(self, model_path: str | Path) -> None:
        self.model_path = Path(model_path)
        try:
            self.content = read_marian_file(self.model_path)
            self._model = sentencepiece.SentencePieceProcessor(model_proto=self.content.model)
        except (RuntimeError, OSError, ValueError) as error:
            raise UserError(
                f"{self.model_path} is no subword model of a Marian model ({reason_of(error)}); "
                "expected the file that import_marian writes: import the model again."
            ) from error
        pieces = enumerate(self.content.pieces)
        self.ids = {piece: number for number, piece in pieces if number > UNK_ID}

    @property
    def size(self) -> int:
        """The number of ids; every id that `encode` gives is below it."""
        return len(self.content.pieces)

    def pieces(self) -> list[str]:
        """Returns what every id is called, in the vocabulary of both sides if they share it."""
        return list(self.content.pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last.

        Args:
            lines: any text; an empty one is EOS alone. A lone surrogate counts as "?".

        Returns:
            One list of ids a line, in the same order.
        """
        codes, texts = [], []
        for line in lines:
            text = line.encode("utf-8", errors="replace").decode()
            if self.content.punctuation is not None:
                text = punctuation_normalizer(self.content.punctuation)(text)
            code = _CODE.match(text)
            codes.append([code[0]] if code else [])
            texts.append(text[code.end() :] if code else text)
        cut = self._model.encode(texts, out_type=str, num_threads=1)
        return [
            [*(self.ids.get(piece, UNK_ID) for piece in code + pieces), EOS_ID]
            for code, pieces in zip(codes, cut, strict=True)
        ]

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the ids of lines of a corpus, each stripped as `Translator` strips them.

        Args:
            lines: sentences; at least one.

        Returns:
            The ids of all lines one after the other, [ids], EOS last in each line's, and how many
            each line has, [lines].
        """
        encoded = self.encode([line.strip() for line in lines])
        lengths = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded))
        return np.fromiter((token for ids in encoded for token in ids), dtype=np.int32), lengths

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence of ids.

        Args:
            ids: [length] ids; what follows the first EOS is not read. PAD, UNK and an id outside
                the vocabulary (embeddings may have more rows than it) are skipped.
        """
        pieces = [self.content.pieces[token] for token in read_ids(ids) if self._is_text(token)]
        text: str = self._model.decode_pieces(pieces)
        # SentencePiece leaves the marks of pieces that are the other side's alone.
        text = text.replace(SPACE_MARK, " ").strip()
        if self.content.clean_spaces:
            for spaced in CLEANED_SPACES:
                text = text.replace(spaced, spaced.strip())
        return text

    def _is_text(self, token: int) -> bool:
        return UNK_ID < token < self.size

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader: plain where a word begins, behind ## where one goes on.

        Args:
            ids: [length] ids of the vocabulary.

        Returns:
            One name an id; EOS is <EOS>, and a word's beginning by itself U+2581.
        """
        begins = self.word_marks.begins(ids)
        return [self._label(*each) for each in zip(ids, begins, strict=True)]

    def _label(self, token: int, begins: bool) -> str:
        piece = self.content.pieces[token]
        if token == EOS_ID:
            return "<EOS>"
        if not self._is_text(token) or piece == SPACE_MARK or _CODE.match(piece):
            return piece
        return label(piece, begins)

    @cached_property
    def word_marks(self) -> WordMarks:
        """Which ids bear the mark of a word. A language code is a word."""
        marks = WordMarks.of(self.content.pieces, marks_end(self.content.model))
        codes = map(_CODE.match, self.content.pieces)
        marked = [bears or bool(code) for bears, code in zip(marks.marked, codes, strict=True)]
        return marks._replace(marked=marked)

    def word_numbers(self, line: str, ids: Sequence[int]) -> list[int]:
        """Numbers the words of one line, what white space separates; UNK goes on with one.

        Where rules for punctuation join words or take them apart, those behind count otherwise.

        Args:
            line: the text.
            ids: [length] ids as `encode` gives them, or the first of them.

        Returns:
            The number, from 0, of each id's word; `NO_WORD` from the first EOS on.
        """
        return self.word_marks.numbers_in(line, ids, self.encode)

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the file's content, where it has all of these symbols: language codes.

        Raises:
            UserError: it lacks one, or has it as something that is found in no text.
        """
        for symbol in symbols:
            code = _CODE.fullmatch(symbol)
            if symbol not in self.ids or not code:
                codes = [piece for piece in self.ids if _CODE.fullmatch(piece)]
                raise UserError(
                    f"{self.model_path} has no language code {symbol}, and symbols cannot be added "
                    f"to it; expected one of {', '.join(codes) or 'none, as it has none'}: leave "
                    "out the tags, or learn subwords of the data's own with SubwordTraining."
                )
        return self.model_path.read_bytes()
