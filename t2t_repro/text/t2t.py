r"""The subwords of Tensor2Tensor: its vocabulary files, applied as its SubwordTextEncoder does.

Text becomes ids in three steps, each of which can be undone (T2T: data_generators/tokenizer.py
and text_encoder.py):

1.  It is cut into tokens wherever a letter or number meets another character. A token that is a
    single space is left out, unless it begins or ends the line: two neighbours that are both
    letters or numbers say that it was there.
2.  A token is escaped: `\` becomes `\\`, `_` becomes `\u`, a character that the vocabulary lacks
    becomes its code point, `\8364;`. Then `_` marks its end.
3.  From the left, always the longest subword that fits is taken.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most
from t2t_repro.text.word_ids import WordIds, read_ids
from t2t_repro.vocabulary import CONTINUES, NO_WORD

RESERVED = ("<pad>_", "<EOS>_")
"""What a vocabulary file begins with, in the order of our PAD and EOS."""

# Python's \w is a letter, a number (Unicode's categories L and N) or the underscore.
_TOKEN = re.compile(r"[^\W_]+|[\W_]+")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")
_ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")

UNDEFINED = "\u3013"
"""T2T's stand-in for a number that is no code point."""

# A token takes as many steps for each of its characters; real ones have dozens.
_MAX_SUBWORD = 1000
_MAX_FILE_BYTES = 2**26
_MAX_SUBWORDS = 2**20


class T2TSubwords:
    """A vocabulary that T2T learned: text to ids and back.

    Nothing is lost on the way: `decode(encode([x])[0]) == x` for every Unicode text x. There is no
    UNK. T2T strips a line before it encodes it, and so does `Translator`.

    Args:
        model_path: the vocabulary file, a subword a line, quoted or not.

    Attributes:
        ids: of every subword, as it is written in the file.
        longest: characters of the longest subword.
        characters: those of all subwords; others are spelled by their code points.

    Raises:
        UserError: there is no such file, or it is not a vocabulary of this kind.
    """

    def __init__(self, model_path: str | Path) -> None:
        self.model_path = Path(model_path)
        self._subwords = _read(self.model_path)
        # An empty line is an id of its own, and no subword; of two equal ones the last counts.
        self.ids = {text: number for number, text in enumerate(self._subwords) if text}
        self._check()
        self.longest = max(map(len, self.ids))
        if self.longest > _MAX_SUBWORD:
            raise UserError(
                f"{self.model_path} has a subword of {self.longest} characters, expected at most "
                f"{_MAX_SUBWORD}: give the vocabulary that t2t-datagen wrote."
            )
        self.characters = _ESCAPE_CHARACTERS.union(*self.ids)
        self._token_ids = WordIds(self._encode_token)

    def _check(self) -> None:
        if tuple(self._subwords[:2]) != RESERVED:
            raise UserError(
                f"{self.model_path} begins with {', '.join(map(repr, self._subwords[:2]))}, "
                f"expected {', '.join(map(repr, RESERVED))}: give the vocabulary of T2T's "
                "SubwordTextEncoder, as t2t-datagen wrote it (vocab.*.subwords, vocab.*.32768)."
            )
        if missing := sorted(_ESCAPE_CHARACTERS - self.ids.keys()):
            raise UserError(
                f"{self.model_path} has no subword for {' '.join(missing)}, so it cannot spell "
                "what it does not know: give the complete file that t2t-datagen wrote."
            )

    @property
    def size(self) -> int:
        """The number of ids; every id that `encode` gives is below it."""
        return len(self._subwords)

    def pieces(self) -> list[str]:
        """Returns the subword of every id, escaped as in the file; an empty one is no subword."""
        return list(self._subwords)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last.

        Args:
            lines: any text; an empty one is EOS alone.

        Returns:
            One list of ids a line, in the same order.
        """
        return [self._line_ids(line).tolist() for line in lines]

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the ids of lines of a corpus, each stripped as T2T strips them.

        Args:
            lines: sentences; at least one.

        Returns:
            The ids of all lines one after the other, [ids], EOS last in each line's, and how many
            each line has, [lines].
        """
        encoded = [self._line_ids(line.strip()) for line in lines]
        lengths = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded))
        return np.concatenate(encoded), lengths

    def _line_ids(self, line: str) -> NDArray[np.int32]:
        return np.frombuffer(self._token_ids.of_line(tokens_of(line)), dtype=np.int32)

    def _encode_token(self, token: str) -> list[int]:
        try:
            return self._segment(_escape(token, self.characters))
        except LookupError:
            # T2T gives up here. Vocabularies of its early versions hold characters inside
            # subwords only; a token that needs one by itself has it spelled by its code point.
            return self._segment(_escape(token, self.ids.keys()))

    def _segment(self, escaped: str) -> list[int]:
        """The ids of the longest subwords, taken from the left.

        Raises:
            LookupError: no subword fits somewhere.
        """
        ids, start = [], 0
        while start < len(escaped):
            for end in range(min(start + self.longest, len(escaped)), start, -1):
                if (found := self.ids.get(escaped[start:end])) is not None:
                    break
            else:
                raise LookupError(escaped[start:])
            ids.append(found)
            start = end
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence of ids.

        Args:
            ids: [length] ids; what follows the first EOS is not read, PAD is skipped, and an id
                outside the vocabulary (embeddings may have more rows than it) is no text.

        Returns:
            The text; a number that is no character is written as U+3013.
        """
        kept = [self._subwords[token] for token in read_ids(ids) if 0 <= token < self.size]
        return text_of([_unescape(token) for token in "".join(kept).split("_") if token])

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader: plain where a token begins, behind ## where one goes on.

        Args:
            ids: [length] ids of the vocabulary.

        Returns:
            One name an id, without escapes unless these lie in several subwords; a token's end
            alone is an underscore.
        """
        subwords = [self._subwords[token] for token in ids]
        begins = [True, *(subword.endswith("_") for subword in subwords)]
        return [
            ("" if begin else CONTINUES) + (_unescape(subword.removesuffix("_")) or "_")
            for begin, subword in zip(begins, subwords, strict=False)
        ]

    def word_numbers(self, line: str, ids: Sequence[int]) -> list[int]:
        """Numbers the words of one line, what white space separates.

        Where the spaces are, only the text says: a subword belongs to the word that it ends in.

        Args:
            line: the text, which the ids hold whole.
            ids: [length] ids as `encode` gives them, or the first of them.

        Returns:
            The number, from 0, of each id's word; `NO_WORD` from the first EOS on.
        """
        kept = read_ids(ids)
        texts = [self.decode(kept[: end + 1]) for end in range(len(kept))]
        numbers = [max(len(text.split()) - 1, 0) for text in texts]
        return numbers + [NO_WORD] * (len(ids) - len(kept))

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the file's content, where there are no symbols.

        Raises:
            UserError: there are; T2T's subwords have no room for any.
        """
        if symbols:
            raise UserError(
                f"{self.model_path} is a vocabulary of Tensor2Tensor, to which symbols such "
                f"as {symbols[0]} cannot be added: leave out the tags, or learn subwords of "
                "the data's own with SubwordTraining."
            )
        return self.model_path.read_bytes()


def tokens_of(line: str) -> list[str]:
    """Cuts a line into tokens, T2T's first step."""
    tokens: list[str] = _TOKEN.findall(line)
    inner = [token for token in tokens[1:-1] if token != " "]
    return [*tokens[:1], *inner, *tokens[1:][-1:]]


def text_of(tokens: Sequence[str]) -> str:
    """Joins tokens: the inverse of `tokens_of`."""
    pieces = []
    after_word = False
    for token in tokens:
        word = token[0].isalnum()
        pieces.append(f" {token}" if word and after_word else token)
        after_word = word
    return "".join(pieces)


def _escape(token: str, characters: Collection[str]) -> str:
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    spelled = [c if c in characters else f"\\{ord(c)};" for c in token]
    return "".join(spelled) + "_"


def _unescape(token: str) -> str:
    return _ESCAPED.sub(_character, token)


def _character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return "_" if escape[0] == "\\u" else "\\"
    try:
        character = chr(int(escape[1]))
        character.encode("utf-8")  # A lone surrogate has a number, but is no character.
    except (ValueError, OverflowError):
        return UNDEFINED
    return character


def _read(path: Path) -> list[str]:
    """The subwords of a vocabulary file, by id."""
    try:
        content = read_at_most(path, _MAX_FILE_BYTES)
        if content.count(b"\n") > _MAX_SUBWORDS:
            raise ValueError(f"it has more than {_MAX_SUBWORDS:,} lines")
    except (OSError, ValueError) as error:
        raise UserError(
            f"no vocabulary at {path} ({reason_of(error)}); expected a file that t2t-datagen wrote."
        ) from error
    try:
        # At \n alone: other characters that end a line may stand in a subword.
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text; expected a vocabulary that t2t-datagen wrote."
        ) from error
    return [_unquoted(line.rstrip()) for line in lines]


def _unquoted(line: str) -> str:
    quoted = any(line.startswith(quote) and line.endswith(quote) for quote in "'\"")
    return line[1:-1] if quoted else line
