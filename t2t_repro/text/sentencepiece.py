"""A SentencePiece BPE model: text to ids and back; the word boundaries that its pieces mark.

Byte-pair encoding as of Sennrich et al. (2016), learned and applied by SentencePiece (Kudo and
Richardson, 2018).
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import sentencepiece
from numpy.typing import NDArray
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most
from t2t_repro.text.characters import readable, visible, without_invisible
from t2t_repro.vocabulary import CONTINUES, EOS_ID, NO_WORD, PAD_ID, SPACE_MARK, UNK_ID, text_ids

if TYPE_CHECKING:
    from t2t_repro.text.in_graph import TextOps


MAX_FILE_BYTES = 2**26
"""The size limit of a subword file, 64 MB."""

_EOS = np.int32(EOS_ID).tobytes()

# Advice where symbols cannot be added to a vocabulary.
NO_TAGS = "leave out the tags, or learn subwords from the data with SubwordTraining"

# Some 200 bytes each, so 100 MB at most.
_MOST_WORDS = 500_000

# Longer words are rarely repeated. In languages without spaces, a whole line is one word.
_LONGEST_WORD = 64


class WordMarks(NamedTuple):
    """The ids whose pieces have the mark of a word boundary.

    Attributes:
        marked: for every id, whether its piece has the mark.
        at_end: whether the mark ends a word; otherwise it starts one.
    """

    marked: list[bool]
    at_end: bool

    @classmethod
    def of(cls, pieces: Sequence[str], at_end: bool) -> "WordMarks":
        """Returns which of the pieces, by id, end or start with `SPACE_MARK`."""
        is_marked = str.endswith if at_end else str.startswith
        return cls([is_marked(piece, SPACE_MARK) for piece in pieces], at_end)

    def begins(self, tokens: Sequence[int]) -> list[bool]:
        """Returns for every id of a sentence whether a word begins there."""
        marked = [self.marked[token] for token in tokens]
        # With marks at the end, a word begins at the first id and after each mark.
        return [True, *marked[:-1]] if marked and self.at_end else marked

    def numbers(self, ids: Sequence[int]) -> list[int]:
        """Numbers the words of a sentence as the model splits them.

        Args:
            ids: [length].

        Returns:
            for each id the number of its word, from 0; `NO_WORD` from the first EOS on.
        """
        # Subwords before the first mark belong to the first word.
        numbers = [max(count - 1, 0) for count in accumulate(self.begins(text_ids(ids)))]
        return numbers + [NO_WORD] * (len(ids) - len(numbers))


class NamedIds:
    """A vocabulary: ids of subwords, each with a name."""

    _pieces: list[str]

    @property
    def size(self) -> int:
        """The number of ids; all ids from `encode` are below it."""
        return len(self._pieces)

    def pieces(self) -> list[str]:
        """Returns the name of every id, such as "▁the" or "<0x0A>"; T2T's are as in its file."""
        return list(self._pieces)


class MarkedSubwords(NamedIds, ABC):
    """Subwords of which some mark a word boundary, as SentencePiece's do.

    Attributes:
        word_marks: the ids that have the mark.
    """

    word_marks: WordMarks

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last."""

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader.

        One that begins a word is plain; one that continues it has ## in front.

        Args:
            ids: [length] ids of the vocabulary.

        Returns:
            one name per id. EOS is shown as <EOS>. PAD, UNK, a byte (<0x41>) and a piece that is
            only the space mark are shown as they are.
        """
        names = [self._pieces[token] for token in ids]
        return list(map(_label, ids, names, self.word_marks.begins(ids)))

    def word_numbers(self, line: str, ids: Sequence[int]) -> list[int]:
        """Numbers the words of a line as white space splits them.

        The model may split them differently: its normalization may insert a space in a word
        ("don\u00b4t" becomes "don \u0301t") or remove the whole word. So every word is encoded
        alone, and the model's words in it are counted.

        Args:
            line: the text.
            ids: [length] ids that `encode` gives for this line, or a prefix of them.

        Returns:
            for each id the number of its word in `line.split()`, from 0; `NO_WORD` from the first
            EOS on.
        """
        number_words = self.word_marks.numbers
        # The number of the model's words in each word of the line; EOS has NO_WORD, which is -1.
        counts = [max(number_words(word)) + 1 for word in self.encode(line.split())]
        ends = list(accumulate(counts))
        last = len(ends) - 1
        numbers = number_words(ids)
        # A word of the model is in the first word of the line that ends after it, or in the last
        # one if there are too many, as with ids of another line.
        return [NO_WORD if n == NO_WORD else min(bisect_right(ends, n), last) for n in numbers]


def _label(token: int, piece: str, begins: bool) -> str:
    """Names a subword for a reader (see `MarkedSubwords.labels`)."""
    if token == EOS_ID:
        return "<EOS>"
    if token in (PAD_ID, UNK_ID) or piece == SPACE_MARK or piece.startswith("<0x"):
        return piece
    return ("" if begins else CONTINUES) + piece.strip(SPACE_MARK)


class SentencePieceModel(MarkedSubwords):
    """A SentencePiece BPE model: text to ids and back.

    Nothing visible but U+FFFD is lost: `decode(encode([x])[0])` is x, normalized by the model.

    No subword spans a space, so the ids of a line are those of its words, one after the other.
    Every word is encoded once and its ids are cached, which is several times faster than
    SentencePiece on whole lines.

    Args:
        model_path: a SentencePiece model that `SubwordTraining` wrote.

    Raises:
        UserError: the file is missing, is not a SentencePiece model, or has other special ids.
    """

    def __init__(self, model_path: str | Path) -> None:
        self.model_path = Path(model_path)
        try:
            content = read_at_most(self.model_path, MAX_FILE_BYTES)
            self._model = model = sentencepiece.SentencePieceProcessor(model_proto=content)
            self._pieces = model.id_to_piece(list(range(model.get_piece_size())))
            self.word_marks = WordMarks.of(self._pieces, marks_end(content))
        except (RuntimeError, OSError, ValueError, TypeError) as error:
            reason = f"{reason_of(error)}; expected the file that datagen writes: run it again"
            raise UserError(f"{self.model_path} is not a SentencePiece model: {reason}.") from error
        special_ids = model.pad_id(), model.eos_id(), model.unk_id(), model.bos_id()
        expected = PAD_ID, EOS_ID, UNK_ID, -1
        if special_ids != expected:
            problem = f"{self.model_path} has PAD, EOS, UNK and BOS at {special_ids}"
            raise UserError(f"{problem}, expected {expected}: train the model with datagen.")
        self._word_ids = WordIds(self._ids_of_word)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last.

        Args:
            lines: sentences; an empty one is EOS alone.
        """
        return self._word_ids.lists(map(_space_separated, lines))

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Encodes many lines, faster than `encode`.

        Args:
            lines: sentences; at least one.

        Returns:
            the ids of all lines, one line after the other, EOS at the end of each, [ids], and the
            number of ids of each line, [lines].
        """
        return self._word_ids.block(map(_space_separated, lines))

    def _ids_of_word(self, word: str) -> list[int]:
        """Returns the ids of a word, without EOS; none if normalization removes it."""
        ids: list[int] = self._model.encode(as_utf8(word))
        # SentencePiece then still returns the word's end mark.
        is_removed = self.word_marks.at_end and self._model.id_to_piece(ids) == [SPACE_MARK]
        return [] if is_removed else ids

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence.

        Args:
            ids: [length]; ids after the first EOS are ignored, PAD is skipped, and an id outside
                the vocabulary (embeddings may have more rows) counts as UNK.

        Returns:
            the text, with UNK as " ⁇ " and without bytes that are not UTF-8.
        """
        valid = [token if 0 <= token < self.size else UNK_ID for token in text_ids(ids)]
        text: str = self._model.decode(valid)
        # SentencePiece removes the space of the first word's mark, but not that of the last one's.
        return readable(text.removesuffix(" ") if self.word_marks.at_end else text)

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the model's file with these symbols added, such as tags.

        Ids do not change; new symbols come last. One that is already a subword keeps its id, and
        from then on is one subword everywhere. Without changes, the bytes are those of the file.
        """
        proto = ModelProto.FromString(self.model_path.read_bytes())
        pieces = {piece.piece: piece for piece in proto.pieces}
        kind = ModelProto.SentencePiece.USER_DEFINED
        # Each once: those that are no piece yet, or one that a text may split.
        added = dict.fromkeys(s for s in symbols if s not in pieces or pieces[s].type != kind)
        for symbol in added:
            piece = pieces[symbol] if symbol in pieces else proto.pieces.add(piece=symbol)
            piece.type = kind
            proto.trainer_spec.user_defined_symbols.append(symbol)
        proto.trainer_spec.vocab_size = len(proto.pieces)
        content: bytes = proto.SerializeToString()
        return content if added else self.model_path.read_bytes()

    def in_graph(self) -> "TextOps":
        """Returns the same encoding and decoding as TensorFlow operations."""
        from t2t_repro.text.in_graph import SentencePieceTextOps  # Takes seconds to import.

        return SentencePieceTextOps(self.pieces(), self.word_marks, self.sentencepiece())

    def sentencepiece(self) -> bytes:
        """Returns the content of the SentencePiece file."""
        return self.model_path.read_bytes()


class WordIds(dict[str, bytes]):
    """A cache of the ids of words, int32 in bytes: `self[word]` encodes a word that it lacks.

    A corpus repeats few words many times.

    Args:
        encode: returns the ids of one word.
    """

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self._encode = encode

    def lists(self, lines: Iterable[Iterable[str]]) -> list[list[int]]:
        """Returns the ids of lines of words, EOS last in each."""
        return [np.frombuffer(self._of_line(words), np.int32).tolist() for words in lines]

    def block(self, lines: Iterable[Iterable[str]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the ids of all lines [ids], EOS last in each, and the lines' lengths [lines]."""
        encoded = [self._of_line(words) for words in lines]
        byte_counts = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded))
        return np.frombuffer(b"".join(encoded), np.int32), byte_counts // np.int32().nbytes

    def _of_line(self, words: Iterable[str]) -> bytes:
        """Returns the ids of a line's words, EOS last, int32 in bytes."""
        return b"".join(map(self.__getitem__, words)) + _EOS

    def __missing__(self, word: str) -> bytes:
        """Encodes a word that is not in the cache, and caches it unless it is very long.

        `self[word]` calls it.
        """
        ids = np.array(self._encode(word), dtype=np.int32).tobytes()
        if len(word) <= _LONGEST_WORD:
            if len(self) >= _MOST_WORDS:
                self.clear()  # Frequent words are soon cached again.
            self[word] = ids
        return ids


def as_utf8(line: str) -> bytes:
    """Encodes a text in UTF-8 for SentencePiece.

    Space marks become spaces, lone surrogates "?", and invisible characters are removed.
    """
    return without_invisible(line).replace(SPACE_MARK, " ").encode("utf-8", errors="replace")


def _space_separated(line: str) -> list[str]:
    """Splits a line at plain spaces, without its invisible characters; some words may be "".

    The model's normalization decides what else is a space.
    """
    return visible(line).split(" ")


def marks_end(model: bytes) -> bool:
    """Returns whether a SentencePiece model marks the ends of words instead of their starts."""
    return bool(ModelProto.FromString(model).trainer_spec.treat_whitespace_as_suffix)
