"""The merges of a SentencePiece BPE, one at a time.

A word is a sequence of symbols: of characters at first, of pieces of the vocabulary in the end. A
merge joins two neighbours whose text is a piece; that with the best score comes first, and of two
alike the left one (Sennrich et al., 2016).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most
from t2t_repro.strangers.marian_file import START
from t2t_repro.strangers.sentencepiece_file import MAX_BYTES, check_sentencepiece
from t2t_repro.text.word_marks import WordMarks

_Kind = ModelProto.SentencePiece.Type
_MERGED = _Kind.Value("NORMAL")
_BYTE = _Kind.Value("BYTE")
# Whole from the beginning, whatever stands beside them.
_KEPT = tuple(map(_Kind.Value, ("USER_DEFINED", "CONTROL", "UNKNOWN")))

# Before a symbol that is kept whole, such as a tag. No UTF-8 has it, so that no merge takes one.
_WHOLE = "\ud800"


class Split:
    """A word on its way from characters to subwords.

    Attributes:
        symbols: of the word.
        candidates: the merges that it allows, best first: how bad each is, and the place of its
            left symbol.
        following: the splits that these lead to; None for one not looked at yet.
    """

    __slots__ = ("candidates", "following", "symbols")

    def __init__(self, symbols: list[str], candidates: list[tuple[float, int]]) -> None:
        self.symbols = symbols
        self.candidates = candidates
        self.following: list[Split | None] = [None] * len(candidates)


class BpeMerges:
    """The merges of a vocabulary.

    Args:
        model_path: a SentencePiece BPE model.

    Attributes:
        word_marks: which ids bear the mark of a word.
        merges_in: [vocabulary] int64: how many merges have made each id of characters.

    Raises:
        UserError: it is no such model.
    """

    def __init__(self, model_path: Path) -> None:
        model = _read(model_path)
        pieces = model.pieces
        at_end = model.trainer_spec.treat_whitespace_as_suffix
        self.word_marks = WordMarks.of([piece.piece for piece in pieces], at_end)
        # The worse, the larger.
        self._ranks = {p.piece: -p.score for p in pieces if p.type == _MERGED}
        # By id: the text, of a byte the byte itself; and by symbol: the ids, as bytes.
        self._texts, self._ids, self._whole = [], dict[str, bytes](), set[int]()
        for number, piece in enumerate(pieces):
            text, ids = piece.piece, np.int32(number).tobytes()
            self._texts.append(text.encode())
            if piece.type == _BYTE:
                self._texts[-1] = bytes([int(text[1:-1], 16)])
            elif piece.type == _MERGED:
                self._ids[text] = ids
            else:
                self._ids[_WHOLE + text] = ids
                self._whole.add(number)
        self._byte_ids = {
            self._texts[number]: np.int32(number).tobytes()
            for number, piece in enumerate(pieces)
            if piece.type == _BYTE
        }
        self.merges_in = np.array([len(p.piece) - 1 if p.type == _MERGED else 0 for p in pieces])

    def characters(self, ids: Sequence[int]) -> Split:
        """Returns what a word is before its first merge, from any ids of it."""
        symbols: list[str] = []
        text = b""
        for token in ids:
            if token in self._whole:
                symbols += [*text.decode(), _WHOLE + self._texts[token].decode()]
                text = b""
            else:
                text += self._texts[token]
        symbols += text.decode()
        return Split(symbols, sorted(self._at(symbols, range(len(symbols)))))

    def after(self, split: Split, number: int) -> Split:
        """Returns what the candidate of this number leads to; remembered with the split."""
        following = split.following[number]
        if following is None:
            place = split.candidates[number][1]
            symbols = split.symbols.copy()
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
            candidates = [
                (rank, other if other < place else other - 1)
                for rank, other in split.candidates
                if not -1 <= other - place <= 1
            ]
            candidates += self._at(symbols, (place - 1, place))
            candidates.sort()
            following = split.following[number] = Split(symbols, candidates)
        return following

    def encode(self, split: Split) -> bytes:
        """Returns the ids of a word, int32 one after the other; of what has none, its bytes'."""
        return b"".join([self._ids.get(symbol) or self._spell(symbol) for symbol in split.symbols])

    def _at(self, symbols: list[str], places: Iterable[int]) -> list[tuple[float, int]]:
        """The merges at some places, of those that there are."""
        found = []
        for place in places:
            if 0 <= place < len(symbols) - 1:
                rank = self._ranks.get(symbols[place] + symbols[place + 1])
                if rank is not None:
                    found.append((rank, place))
        return found

    def _spell(self, character: str) -> bytes:
        encoded = character.encode()
        return b"".join(self._byte_ids[encoded[i : i + 1]] for i in range(len(encoded)))


def _read(model_path: Path) -> ModelProto:
    """Reads a model of which this module knows everything that SentencePiece would do."""
    content = b""
    try:
        content = read_at_most(model_path, MAX_BYTES)
        check_sentencepiece(content)
    except (OSError, ValueError) as error:
        found = "is a Marian model's" if content.startswith(START) else "is none"
        raise _no_bpe(model_path, found) from error
    model = ModelProto.FromString(content)
    if model.trainer_spec.model_type != TrainerSpec.BPE:
        raise _no_bpe(model_path, "is of another type")
    if not {piece.type for piece in model.pieces} <= {_MERGED, _BYTE, *_KEPT}:
        raise _no_bpe(model_path, "has unused pieces")
    return model


def _no_bpe(model_path: Path, found: str) -> UserError:
    return UserError(
        f"SubwordDropout leaves out merges of a SentencePiece BPE, and {model_path} {found}: leave "
        "it out, or train with subwords that datagen learns."
    )
