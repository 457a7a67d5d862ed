"""A subword vocabulary, for source and target or for one of them: a SentencePiece BPE.

Vaswani et al. (2017), section 5.1: "sentences were encoded using byte-pair encoding, which has a
shared source-target vocabulary of about 37000 tokens". The encoding is that of Sennrich et al.
(2016), learned and applied by SentencePiece (Kudo and Richardson, 2018).
"""

import io
import random
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import gin
import numpy as np
import sentencepiece
from absl import logging
from numpy.typing import NDArray
from sentencepiece import sentencepiece_model_pb2

from t2t_repro.config.values import AtMost, Count, Range, Text, validated
from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most, write_whole
from t2t_repro.strangers.sentencepiece_file import MAX_BYTES, check_sentencepiece
from t2t_repro.text.training import MOST_SYMBOLS, add_symbols, check_symbols, merged
from t2t_repro.text.word_ids import WordIds, read_ids
from t2t_repro.text.word_marks import SPACE_MARK, WordMarks, label, marks_end
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

_ID_BYTES = np.int32().nbytes


class Sentences(Protocol):
    """Sentences that are counted, but need not be in memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


@gin.configurable
@validated
@dataclass(frozen=True)
class SubwordTraining:
    """The recipe of a subword vocabulary.

    Attributes:
        vocab_size: number of ids, with PAD, EOS, UNK and the 256 bytes among them.
        sample_size: at most this many sentences are learned from, source and target counted
            together where both are: a uniform sample where the corpus has more.
        seed: seed of the sample.
        character_coverage: share of the text's characters, the most frequent ones, that get an id
            of their own. The rest is spelled in UTF-8 bytes, so nothing is lost at any coverage;
            at 1.0 a crawled corpus would spend thousands of ids on characters it has once.
        split_digits: whether every digit is a subword of its own.
        split_scripts: whether a subword holds letters of one script only, and punctuation apart
            from letters. Otherwise symbols such as /NP and PRP$ become subwords.
        word_mark: where a subword bears the mark of a word's boundary: at the word's "start", as
            SentencePiece has it, or at its "end", as subword-nmt: then the last part of a compound
            is the same subword as the word by itself.
        normalization: SentencePiece's rule: `nmt_nfkc` (Unicode NFKC, control characters and
            odd spaces become plain spaces) or `identity`, for text that has been tokenised and
            normalised already and is to be scored as it is. Both strip and squeeze spaces.
        symbols: texts that are one subword each wherever they stand, such as '<2de>'; counted in
            `vocab_size`. The tags of a `Mixture` are added by themselves.

    Raises:
        UserError: a number is outside of its range, the rule is unknown, or a symbol cannot be
            told from other text.
    """

    vocab_size: Count = 37_000
    sample_size: Count = 5_000_000
    seed: int = 1
    character_coverage: Annotated[float, Range(above=0, most=1)] = 0.9999
    split_digits: bool = False
    split_scripts: bool = True
    word_mark: Literal["start", "end"] = "start"
    normalization: Literal["nmt_nfkc", "identity"] = "nmt_nfkc"
    symbols: Annotated[Sequence[Text], AtMost(MOST_SYMBOLS)] = ()

    def __post_init__(self) -> None:
        check_symbols("SubwordTraining.symbols", self.symbols)

    def describe(self) -> dict[str, Any]:
        """Returns what identifies the recipe: all of it."""
        # Data that are older than symbols and marks have no such entries.
        left_out = {"symbols": not self.symbols, "word_mark": self.word_mark == "start"}
        return {name: value for name, value in asdict(self).items() if not left_out.get(name)}

    def pieces(self) -> None:
        """Returns None: the pieces are known after training only."""

    def with_symbols(self, symbols: Sequence[str]) -> "SubwordTraining":
        """Returns the recipe with further symbols."""
        return replace(self, symbols=merged(self.symbols, symbols))

    def train(self, sentences: Sentences, model_path: Path) -> "SentencePieceModel":
        """Learns the vocabulary and writes the model in one piece: whole, or not at all.

        The same sentences and recipe give the same file, byte for byte.

        Args:
            sentences: in any order, of source and target where they share it; read once, in
                bounded memory.
            model_path: the file to write; an old one is replaced.

        Returns:
            The trained model.

        Raises:
            UserError: there is too little text for `vocab_size`, or none at all.
        """
        logging.info("data: learning %d subwords: %s", self.vocab_size, model_path.name)
        sampled = _sample(len(sentences), self.sample_size, self.seed)
        counts = _count_words(compress(sentences, sampled))
        model = io.BytesIO()
        # Passed only where needed, so that files with the mark at the start do not change.
        suffix: dict[str, Any] = (
            {"treat_whitespace_as_suffix": True} if self.word_mark == "end" else {}
        )
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_emptying(counts),
                input_format="tsv",
                model_writer=model,
                model_type="bpe",
                vocab_size=self.vocab_size,
                character_coverage=self.character_coverage,
                split_digits=self.split_digits,
                split_by_unicode_script=self.split_scripts,
                normalization_rule_name=self.normalization,
                user_defined_symbols=list(self.symbols),
                byte_fallback=True,
                pad_id=PAD_ID,
                eos_id=EOS_ID,
                unk_id=UNK_ID,
                bos_id=-1,
                # Longer sentences are silently ignored; so none may be longer.
                max_sentence_length=2**30,
                # The number stands in the model file: one that depended on the machine would
                # make the file depend on it too. The vocabulary itself does not.
                num_threads=4,
                minloglevel=2,
                **suffix,
            )
        except RuntimeError as error:
            raise UserError(_training_failure(str(error), self.vocab_size)) from error
        write_whole(model_path, _as_learned_from_text(model.getvalue()))
        return SentencePieceModel(model_path)


class SentencePieceModel:
    """A trained vocabulary: text to ids and back.

    Nothing is lost on the way: `decode(encode([x])[0]) == normalize(x)` for every text x.

    No subword reaches over a space, so a line's ids are those of its words, one after the other.
    Every word is encoded once and its ids remembered, which takes a fraction of the time that
    SentencePiece takes for whole lines.

    Args:
        model_path: a SentencePiece model that `SubwordTraining` wrote.

    Attributes:
        word_marks: which subwords bear the mark of a word.

    Raises:
        UserError: there is no such file, it is no SentencePiece model, or one with other ids for
            PAD, EOS and UNK, without byte fallback, or with subwords of several words.
    """

    def __init__(self, model_path: str | Path) -> None:
        self.model_path = Path(model_path)
        if not self.model_path.is_file():
            raise UserError(
                f"no subword model at {self.model_path}; expected the file that datagen writes."
            )
        try:
            content = read_at_most(self.model_path, MAX_BYTES)
            check_sentencepiece(content)
            self._model = sentencepiece.SentencePieceProcessor(model_proto=content)
            pieces = self.pieces()
            self.word_marks = WordMarks.of(pieces, marks_end(content))
        except (RuntimeError, OSError, ValueError, TypeError) as error:
            raise UserError(
                f"{self.model_path} is not a SentencePiece model; run datagen again."
            ) from error
        found = (self._model.pad_id(), self._model.eos_id(), self._model.unk_id())
        if found != (PAD_ID, EOS_ID, UNK_ID) or self._model.bos_id() != -1:
            raise UserError(
                f"{self.model_path} has PAD, EOS, UNK at {found} and BOS at "
                f"{self._model.bos_id()}; expected {(PAD_ID, EOS_ID, UNK_ID)} and no BOS: "
                "train the model with datagen."
            )
        if not any(map(self._model.is_byte, range(self.size))):
            raise UserError(
                f"{self.model_path} has no ids for bytes, so it would lose unseen characters; "
                "train the model with datagen."
            )
        self._marks_end = self.word_marks.at_end
        inside = slice(0, -1) if self._marks_end else slice(1, None)
        if any(SPACE_MARK in piece[inside] for piece in pieces):
            raise UserError(
                f"{self.model_path} has subwords that reach over a space; "
                "train the model with datagen."
            )
        self._word_ids = WordIds(self._ids_of_word)

    @property
    def size(self) -> int:
        """The number of ids; every id that `encode` gives is below it."""
        return int(self._model.get_piece_size())

    def pieces(self) -> list[str]:
        """Returns what SentencePiece calls every id, e.g. "▁the" and "<0x0A>"."""
        pieces: list[str] = self._model.id_to_piece(list(range(self.size)))
        return pieces

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the ids of every line, EOS last.

        Args:
            lines: sentences; an empty one is EOS alone.

        Returns:
            One list of ids a line, in the same order.
        """
        return [np.frombuffer(self._line_bytes(line), np.int32).tolist() for line in lines]

    def encode_block(self, lines: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the ids of many lines at less cost a line than `encode`.

        Args:
            lines: sentences; at least one.

        Returns:
            The ids of all lines one after the other, [ids], EOS last in each line's, and how many
            each line has, [lines].
        """
        encoded = [self._line_bytes(line) for line in lines]
        lengths = np.fromiter(map(len, encoded), dtype=np.int32, count=len(encoded))
        return np.frombuffer(b"".join(encoded), dtype=np.int32), lengths // _ID_BYTES

    def _ids_of_word(self, word: str) -> list[int]:
        ids: list[int] = self._model.encode(_as_utf8(word))
        # Where normalisation leaves nothing of a word, SentencePiece still returns its end mark.
        nothing = self._marks_end and self._model.id_to_piece(ids) == [SPACE_MARK]
        return [] if nothing else ids

    def _line_bytes(self, line: str) -> bytes:
        """The ids of one line, int32 one after the other, EOS last."""
        # At plain spaces only: which other characters are spaces, the model's rule says.
        return self._word_ids.of_line(line.split(" "))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of one sentence of ids.

        Args:
            ids: [length] ids; what follows the first EOS is not read, PAD is skipped, and an id
                outside the vocabulary (embeddings may have more rows than it) counts as UNK.

        Returns:
            The text; UNK is written as " ⁇ ", bytes that are no UTF-8 as U+FFFD.
        """
        size = self.size
        kept = [token if 0 <= token < size else UNK_ID for token in read_ids(ids)]
        text: str = self._model.decode(kept)
        # SentencePiece takes the space away that its first word begins with, not its last's.
        return text.removesuffix(" ") if self._marks_end else text

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Names subwords for a reader: plain where a word begins, behind ## where one goes on.

        Args:
            ids: [length] ids of the vocabulary.

        Returns:
            One name an id; EOS is <EOS>, a byte <0x41>, and a word's beginning by itself U+2581.
        """
        tokens = [int(token) for token in ids]
        begins = self.word_marks.begins(tokens)
        return [self._label(*each) for each in zip(tokens, begins, strict=True)]

    def _label(self, token: int, begins: bool) -> str:
        piece: str = self._model.id_to_piece(token)
        if token == EOS_ID:
            return "<EOS>"
        if token in (PAD_ID, UNK_ID) or self._model.is_byte(token) or piece == SPACE_MARK:
            return piece
        return label(piece, begins)

    def word_numbers(self, line: str, ids: Sequence[int]) -> list[int]:
        """Numbers the words of one line, what white space separates.

        Args:
            line: the text, not a blank one.
            ids: [length] ids as `encode` gives them, or the first of them.

        Returns:
            The number, from 0, of each id's word; `NO_WORD` from the first EOS on.
        """
        return self.word_marks.numbers_in(line, ids, self.encode)

    def with_symbols(self, symbols: Sequence[str]) -> bytes:
        """Returns the content of a file that has these symbols too; see `add_symbols`."""
        return add_symbols(self.model_path.read_bytes(), symbols)

    def normalize(self, line: str) -> str:
        """Returns the line as the model sees it, which is what decoding its ids gives back.

        Args:
            line: any text; U+2581, SentencePiece's own mark for a space, counts as a space, and
                a lone surrogate, which no UTF-8 file can hold, as "?".

        Returns:
            The text under the model's normalisation rule, spaces stripped and squeezed.
        """
        marked: str = self._model.normalize(_as_utf8(line).decode())
        # The model puts a space before every first word, or behind every last one.
        words = marked.removesuffix if self._marks_end else marked.removeprefix
        return words(SPACE_MARK).replace(SPACE_MARK, " ")


def _as_utf8(line: str) -> bytes:
    """The line as SentencePiece can take it: no space mark of its own, no lone surrogates."""
    return line.replace(SPACE_MARK, " ").encode("utf-8", errors="replace")


def _sample(count: int, size: int, seed: int) -> bytes:
    """Which of `count` sentences are in a uniform sample without replacement: 1 or 0 for each.

    Waterman's algorithm R, on the sentences' numbers: so memory does not grow with their text.
    """
    generator = random.Random(seed)
    chosen = array("q", range(min(size, count)))
    for number in range(size, count):
        if (place := generator.randrange(number + 1)) < size:
            chosen[place] = number
    sampled = np.zeros(count, dtype=bool)
    sampled[chosen] = True
    return sampled.tobytes()


def _count_words(sentences: Iterable[str]) -> Counter[str]:
    """All that byte-pair encoding learns from, in a fraction of the memory that sentences take.

    SentencePiece holds every line that it is given, at several times its length; given words and
    how often there are, it learns the same model.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence.replace("\t", " ").split(" "))
    return counts


def _emptying(counts: Counter[str]) -> Iterator[bytes]:
    """Lines of a word and its count, which is taken out as SentencePiece takes it over."""
    while counts:
        word, count = counts.popitem()
        if word:
            yield _as_utf8(word) + b"\t%d" % count


def _as_learned_from_text(model: bytes) -> bytes:
    """Removes the input format from a model file: it does not change the vocabulary."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.trainer_spec.ClearField("input_format")
    content: bytes = proto.SerializeToString()
    return content


def _training_failure(message: str, vocab_size: int) -> str:
    """SentencePiece's reason in one line that says how to mend it."""
    if too_high := re.search(r"Vocabulary size too high.*<= (\d+)", message):
        return (
            f"SubwordTraining.vocab_size is {vocab_size}, but this corpus has only enough text "
            f"for {too_high[1]}; set SubwordTraining.vocab_size to at most that, or give more text."
        )
    if too_low := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"SubwordTraining.vocab_size is {vocab_size}, but the special ids, the bytes and this "
            f"corpus's characters need {too_low[1]}; set SubwordTraining.vocab_size to more than "
            "that, or lower SubwordTraining.character_coverage."
        )
    if "!sentences_.empty()" in message or "all_chars_count" in message:
        return "the subword model got no text to learn from; expected sentences in the corpus."
    return f"SentencePiece cannot train with these settings: {' '.join(message.split())}"
