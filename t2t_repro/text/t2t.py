r"""The subwords of Tensor2Tensor: its vocabulary files, applied as its SubwordTextEncoder does.

Text becomes ids in three reversible steps (T2T: data_generators/tokenizer.py and text_encoder.py):

1.  Text is split into tokens wherever a letter or number meets another character. A token that is
    a single space is dropped, except at the beginning or end of the line: two adjacent tokens of
    letters or numbers imply it.
2.  A token is escaped: `\` becomes `\\`, `_` becomes `\u`, and a character that the vocabulary
    lacks its code point, `\8364;`. Then `_` marks its end.
3.  From left to right, the longest matching subword is taken.
"""

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most
from t2t_repro.text.characters import visible
from t2t_repro.text.sentencepiece import MAX_FILE_BYTES, NO_TAGS, NamedIds, WordIds
from t2t_repro.vocabulary import CONTINUES, NO_WORD, text_ids

if TYPE_CHECKING:
    from t2t_repro.text.in_graph import TextOps

RESERVED = ("<pad>_", "<EOS>_")
"""The first two lines of a vocabulary file, with the ids of our PAD and EOS."""

# Python's \w is a letter, a number (Unicode's categories L and N) or the underscore.
_TOKEN = re.compile(r"[^\W_]+|[\W_]+")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")

# T2T's replacement for a number that is not a code point.
_UNDEFINED = "\u3013"


class T2TSubwords(NamedIds):
    """A vocabulary that T2T learned: text to ids and back.

    Nothing visible is lost: `decode(encode([x])[0]) == x` for every Unicode text x without the
    characters of `INVISIBLE`. There is no UNK. T2T strips a line before encoding it, and so does
    `Translator`.

    Args:
        model_path: the vocabulary file, one subword per line, quoted or not.

    Attributes:
        ids: the id of every subword, as written in the file.
        longest: characters of the longest subword.
        characters: all characters of subwords; others are written as their code points.

    Raises:
        UserError: the file is missing, or is not a vocabulary of this kind.
    """

    def __init__(self, model_path: str | Path) -> None:
        self.model_path = Path(model_path)
        self._pieces = _read(self.model_path)
        # An empty line has an id, but is not a subword; of two equal lines the last counts.
        self.ids = {text: number for number, text in enumerate(self._pieces) if text}
        self.longest = max(map(len, self.ids), default=0)
        start = tuple(self._pieces[:2])
        if start != RESERVED:
            problem = f"{self.model_path} begins with {start}, expected {RESERVED}"
            raise UserError(f"{problem}: give the vocab.*.subwords that t2t-datagen wrote.")
        self.characters = _ESCAPE_CHARACTERS.union(*self.ids)
        self._token_ids = WordIds(self._encode_token)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last; those of an empty line are EOS alone."""
        return self._token_ids.lists(tokens_of(visible(line)) for line in lines)

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Encodes many lines, each stripped as T2T strips it.

        Args:
            lines: sentences; at least one.

        Returns:
            the ids of all lines, one line after the other, EOS at the end of each, [ids], and the
            number of ids of each line, [lines].
        """
        return self._token_ids.block(tokens_of(visible(line.strip())) for line in lines)

    def _encode_token(self, token: str) -> list[int]:
        """Returns the ids of one token, without EOS."""
        try:
            return self._segment(_escape(token, self.characters))
        except LookupError:
            # T2T fails here. Vocabularies of its early versions have some characters only within
            # longer subwords. Where such a character is needed alone, its code point is written.
            return self._segment(_escape(token, self.ids.keys()))

    def _segment(self, escaped: str) -> list[int]:
        """Returns the ids of the longest subwords, taken from left to right.

        Raises:
            LookupError: no subword matches somewhere.
        """
        ids, start = [], 0
        while start < len(escaped):
            for end in range(min(start + self.longest, len(escaped)), start, -1):
                if (subword_id := self.ids.get(escaped[start:end])) is not None:
                    break
            else:  # None of these is a subword.
                raise LookupError(escaped[start:])
            ids.append(subword_id)
            start = end
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence.

        Args:
            ids: [length]; ids after the first EOS are ignored, PAD and ids outside the vocabulary
                (embeddings may have more rows) are skipped.

        Returns:
            the text, with U+3013 for a number that is not a character.
        """
        subwords = [self._pieces[token] for token in text_ids(ids) if 0 <= token < self.size]
        return text_of([_unescape(token) for token in "".join(subwords).split("_") if token])

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader.

        One that begins a token is plain; one that continues it has ## in front.

        Args:
            ids: [length] ids of the vocabulary.

        Returns:
            one name per id. EOS is shown as <EOS>, an escape as its character, unless it spans two
            subwords. A subword that only ends a token is shown as an underscore.
        """
        subwords = [self._pieces[token] for token in ids]
        names = [_unescape(subword.removesuffix("_")) or "_" for subword in subwords]
        # A token begins after each end of another one; the last entry is for no subword.
        fronts = ["", *("" if subword.endswith("_") else CONTINUES for subword in subwords)]
        return [front + name for front, name in zip(fronts, names, strict=False)]

    def word_numbers(self, line: str, ids: Sequence[int]) -> list[int]:
        """Numbers the words of one line, as white space splits them.

        Only the decoded text shows where spaces are: a subword belongs to the word that it ends in.

        Args:
            line: not used: the ids alone determine the text.
            ids: [length] ids that `encode` gives for this line, or a prefix of them.

        Returns:
            for each id the number of its word, from 0; `NO_WORD` from the first EOS on.
        """
        before_end = text_ids(ids)
        prefixes = [self.decode(before_end[:stop]) for stop in range(1, len(before_end) + 1)]
        numbers = [max(len(prefix.split()) - 1, 0) for prefix in prefixes]
        return numbers + [NO_WORD] * (len(ids) - len(before_end))

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the file's content, if there are no symbols.

        Raises:
            UserError: there are symbols, which cannot be added to such a vocabulary.
        """
        if symbols:
            problem = f"{self.model_path} is a vocabulary of Tensor2Tensor"
            raise UserError(f"{problem}; symbols such as {symbols[0]} cannot be added: {NO_TAGS}.")
        return self.model_path.read_bytes()

    def in_graph(self) -> "TextOps":
        """Returns the same encoding and decoding as TensorFlow operations."""
        from t2t_repro.text.in_graph import T2TTextOps  # Takes seconds to import.

        return T2TTextOps(self)

    def sentencepiece(self) -> bytes:
        """Refuses, since there is no SentencePiece model.

        Raises:
            UserError: always.
        """
        problem = f"{self.model_path} is a vocabulary of Tensor2Tensor, expected SentencePiece's"
        advice = "export with --format=saved_model and without the signature alignment"
        raise UserError(f"{problem}: {advice}, or train a model on data that datagen prepared.")


def tokens_of(line: str) -> list[str]:
    """Splits a line into tokens (the module's step 1); "Hi, you 2" is ["Hi", ", ", "you", "2"]."""
    tokens: list[str] = _TOKEN.findall(line)
    ends = 0, len(tokens) - 1
    return [token for index, token in enumerate(tokens) if token != " " or index in ends]


def text_of(tokens: Sequence[str]) -> str:
    """Joins tokens, with a space between two of letters or numbers; the inverse of `tokens_of`."""
    spaced = list(tokens[:1])
    for before, token in pairwise(tokens):
        are_words = before[0].isalnum() and token[0].isalnum()
        spaced.append(f" {token}" if are_words else token)
    return "".join(spaced)


def _escape(token: str, characters: Collection[str]) -> str:
    """Escapes a token and marks its end (the module's step 2)."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(c if c in characters else f"\\{ord(c)};" for c in token) + "_"


def _unescape(token: str) -> str:
    """Replaces the escapes in a token, or in a subword, by their characters."""
    return _ESCAPED.sub(_character, token)


def _character(escape: re.Match[str]) -> str:
    """Returns the character of an escape; `_UNDEFINED` for a number that is not a character's."""
    if escape[1] is None:
        return "_" if escape[0] == "\\u" else "\\"
    try:
        character = chr(int(escape[1]))
        character.encode("utf-8")  # A lone surrogate has a code point, but no UTF-8.
    except (ValueError, OverflowError):
        return _UNDEFINED
    return character


def _read(path: Path) -> list[str]:
    """Returns the subwords of a vocabulary file, by id, without quotation marks around them.

    Raises:
        UserError: the file is missing, too long or not UTF-8.
    """
    try:
        # Split at \n alone: other characters that end lines may be part of a subword.
        lines = read_at_most(path, MAX_FILE_BYTES).decode("utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        problem = f"{path} cannot be read as a vocabulary: {reason_of(error)}"
        raise UserError(f"{problem}; expected a file that t2t-datagen wrote.") from error
    # 'the_' and "the_" are the_. As in T2T, a quotation mark alone is an empty subword.
    return [re.sub(r"^(['\"])(?:(.*)\1)?$", r"\2", line.rstrip()) for line in lines]
