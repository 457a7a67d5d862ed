"""Recipes of subword models: learn a SentencePiece BPE vocabulary, or take an existing one.

Vaswani et al. (2017), section 5.1: "sentences were encoded using byte-pair encoding, which has a
shared source-target vocabulary of about 37000 tokens".
"""

import hashlib
import io
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from itertools import chain, compress, permutations
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from unicodedata import category, normalize

import numpy as np
import sentencepiece
from absl import logging
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.config.values import Count, Range, configurable
from t2t_repro.errors import UserError
from t2t_repro.files import write_whole
from t2t_repro.text import subword_model as models
from t2t_repro.text.sentencepiece import SentencePieceModel, as_utf8
from t2t_repro.vocabulary import EOS_ID, PAD_ID, SPACE_MARK, UNK_ID

CONTENT = "sha256"
"""The key that describes a vocabulary by its file's content."""

# Options of SentencePiece's trainer that never change.
_FIXED: dict[str, Any] = {"pad_id": PAD_ID, "eos_id": EOS_ID, "unk_id": UNK_ID, "bos_id": -1}
_FIXED |= {"model_type": "bpe", "byte_fallback": True, "input_format": "tsv", "minloglevel": 2}
# SentencePiece silently skips sentences above a length. The model file contains the number of
# threads, so it must not depend on the machine.
_FIXED |= {"max_sentence_length": 2**30, "num_threads": 4}

_RESERVED = ("<unk>", "<s>", "</s>", "<pad>")


@configurable()
@dataclass(frozen=True)
class SubwordTraining:
    """The recipe for a BPE vocabulary.

    Attributes:
        vocab_size: number of ids, including PAD, EOS, UNK and the 256 bytes.
        sample_size: learn from at most this many sentences, source and target together where they
            share the vocabulary: a uniform sample of a larger corpus.
        seed: seed of the sample.
        character_coverage: share of the text's characters, the most frequent ones, that get an id
            of their own. Others are spelled in UTF-8 bytes, so nothing is lost at any coverage; at
            1.0 a crawled corpus would spend thousands of ids on characters that occur once.
        split_digits: make every digit a subword of its own.
        split_scripts: keep letters of different scripts, and punctuation, in separate subwords.
            Without it, symbols such as /NP and PRP$ can become subwords.
        word_mark: mark word boundaries at the "start" of words, as SentencePiece does, or at their
            "end", as subword-nmt does. With "end", the last part of a compound is the same subword
            as that word alone.
        normalization: `nmt_nfc` (Unicode NFC; unusual spaces become plain ones, and control
            characters vanish), so that a model can write text as readers know it; SentencePiece's
            `nmt_nfkc` (Unicode NFKC: ½ becomes 1⁄2, and ， a comma), which suits a vocabulary of
            the source's own; or `identity` for text that is already tokenized and normalized. All
            strip and squeeze spaces.
        symbols: texts that are always one subword, such as '<2de>'; counted in `vocab_size`. The
            tags of a `Mixture` are added automatically.

    Raises:
        UserError: a symbol cannot be distinguished from other text.
    """

    vocab_size: Count = 37_000
    sample_size: Count = 5_000_000
    seed: int = 1
    character_coverage: Annotated[float, Range(above=0, most=1)] = 0.9999
    split_digits: bool = False
    split_scripts: bool = True
    word_mark: Literal["start", "end"] = "start"
    normalization: Literal["nmt_nfc", "nmt_nfkc", "identity"] = "nmt_nfc"
    symbols: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_symbols(self.symbols)

    def describe(self) -> dict[str, Any]:
        """Returns the settings; equal ones learn equal vocabularies of a text."""
        # Without the defaults of these two, which older prepared data do not describe.
        omitted = {"symbols": not self.symbols, "word_mark": self.word_mark == "start"}
        return {name: value for name, value in asdict(self).items() if not omitted.get(name)}

    def with_symbols(self, symbols: Sequence[str]) -> "SubwordTraining":
        """Returns the recipe with further symbols."""
        return replace(self, symbols=tuple(dict.fromkeys((*self.symbols, *symbols))))

    def train(self, sentences: Iterable[str], path: Path, count: int = 0) -> SentencePieceModel:
        """Learns the vocabulary and writes its file, whole or not at all.

        The same sentences and recipe give the same bytes.

        Args:
            sentences: in any order; of source and target if they share the vocabulary. Read once,
                in bounded memory.
            path: the file to write or replace.
            count: number of the sentences, sampled if it is above `sample_size`; 0 takes all.

        Raises:
            UserError: there is no text, or too little for `vocab_size`.
        """
        logging.info("data: learning %d subwords: %s", self.vocab_size, path.name)
        if count > self.sample_size:
            sentences = compress(sentences, _sample(count, self.sample_size, self.seed))
        proto = self._learn(_count_words(sentences), path.with_suffix(".rules"))
        # Cleared, so that the file is the same as one learned from sentences.
        proto.trainer_spec.ClearField("input_format")
        # Rules from a file have no name, and the path of that file is temporary.
        proto.normalizer_spec.name = self.normalization
        proto.normalizer_spec.ClearField("normalization_rule_tsv")
        write_whole(path, proto.SerializeToString())
        return SentencePieceModel(path)

    def _learn(self, counts: Counter[str], rules: Path) -> ModelProto:
        """Learns a model from counts of words.

        `rules` is the path of a temporary file, for the rules of the normalization.

        Raises:
            UserError: there is no text, or too little for `vocab_size`.
        """
        words = (as_utf8(word) + b"\t%d" % times for word, times in counts.items() if word)
        model = io.BytesIO()
        # The model file contains all options that are passed, so the default is not passed.
        options = _FIXED | ({"treat_whitespace_as_suffix": True} if self.word_mark == "end" else {})
        if self.normalization == "nmt_nfc":
            rules.parent.mkdir(parents=True, exist_ok=True)
            rules.write_text(_nfc_rules(), encoding="ascii")
            options["normalization_rule_tsv"] = str(rules)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=words,
                model_writer=model,
                vocab_size=self.vocab_size,
                character_coverage=self.character_coverage,
                split_digits=self.split_digits,
                split_by_unicode_script=self.split_scripts,
                normalization_rule_name=self.normalization,
                user_defined_symbols=list(self.symbols),
                **options,
            )
        except RuntimeError as error:
            # Without "INTERNAL: src/trainer_interface.cc(744) [CONDITION] ".
            reason = str(error).rpartition("] ")[2] or "there is no text"
            problem = f"SubwordTraining.vocab_size is {self.vocab_size}"
            raise UserError(f"{problem}; SentencePiece says: {reason}") from error
        finally:
            rules.unlink(missing_ok=True)
        return ModelProto.FromString(model.getvalue())


@configurable()
@dataclass(frozen=True)
class ExistingSubwords:
    """The recipe that takes an existing vocabulary.

    Attributes:
        model_dir: the directory to take it from: of a model, also an imported one, or of prepared
            data.
        side: the vocabulary to take, if source and target have one each there.
        symbols: texts that are always one subword, see `SubwordTraining`; missing ones are added
            after the last id. The tags of a `Mixture` are added automatically.

    Raises:
        UserError: a symbol cannot be distinguished from other text.
    """

    model_dir: str
    side: Literal["source", "target"] | None = None
    symbols: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_symbols(self.symbols)

    @cached_property
    def model(self) -> models.SubwordModel:
        """The existing vocabulary.

        Raises:
            UserError: the vocabulary is missing or cannot be used, or there are two and no side is
                given.
        """
        pair = models.open_pair(Path(expanduser(self.model_dir)))
        if self.side is None and pair.source is not pair.target:
            problem = f"{self.model_dir} has a vocabulary for the source and one for the target"
            both = "both, as @source/ExistingSubwords() and @target/ExistingSubwords()"
            raise UserError(f"{problem}: bind ExistingSubwords.side for one of them, or {both}.")
        return pair.source if self.side == "source" else pair.target

    @cached_property
    def content(self) -> bytes:
        """The bytes of the vocabulary's file with the symbols added.

        Raises:
            UserError: see `pieces`.
        """
        return self.model.with_symbols(self.symbols)

    @cached_property
    def vocab_size(self) -> int:
        """The number of ids, known before there are data."""
        return len(self.pieces())

    def pieces(self) -> list[str]:
        """Returns the name of every id, added symbols last.

        Raises:
            UserError: see `model`, or a symbol cannot be added.
        """
        self.model.with_symbols(self.symbols)  # Raises if one cannot be added.
        pieces = self.model.pieces()
        # A symbol that is a piece, or is given twice, has one id.
        return [*pieces, *dict.fromkeys(symbol for symbol in self.symbols if symbol not in pieces)]

    def describe(self) -> dict[str, Any]:
        """Returns the identity of the vocabulary: its content, not its path."""
        return {CONTENT: hashlib.sha256(self.content).hexdigest()}

    def with_symbols(self, symbols: Sequence[str]) -> "ExistingSubwords":
        """Returns the recipe with further symbols."""
        return replace(self, symbols=tuple(dict.fromkeys((*self.symbols, *symbols))))

    def train(self, sentences: Iterable[str], path: Path, count: int = 0) -> models.SubwordModel:
        """Writes the vocabulary with the symbols added, and opens it; nothing is learned.

        Args:
            sentences: not used; all recipes have the same arguments.
            path: the file to write or replace.
            count: not used.

        Raises:
            UserError: see `model` and `pieces`.
        """
        logging.info("data: taking %s from %s", path.name, self.model.model_path)
        write_whole(path, self.content)
        return models.open_subwords(path)


# The ways to a subword model: to learn it, or to take an existing one.
SubwordRecipe = SubwordTraining | ExistingSubwords


class SubwordRecipes(NamedTuple):
    """The recipes of source and target: the same object twice if they share the subwords."""

    source: SubwordRecipe
    target: SubwordRecipe

    def files(self) -> dict[str, tuple[SubwordRecipe, tuple[int, ...]]]:
        """Returns, by file, its recipe and the sides that it is for.

        Sides are indices into a pair (source, target): a shared vocabulary gives
        {"subwords.model": (recipe, (0, 1))}.
        """
        if self.source is self.target:
            return {models.SHARED_SUBWORDS: (self.target, (0, 1))}
        return {
            models.SOURCE_SUBWORDS: (self.source, (0,)),
            models.TARGET_SUBWORDS: (self.target, (1,)),
        }

    @property
    def has_own_source_ids(self) -> bool:
        """Whether an id may mean different pieces in source and target."""
        if self.source is self.target:
            return False
        existing = [recipe.pieces() for recipe in self if isinstance(recipe, ExistingSubwords)]
        # Pieces of a model that is still to be learned are unknown, so they may differ.
        return len(existing) < 2 or existing[0] != existing[1]


@cache
def _nfc_rules() -> str:
    """Returns the rules of the normalization `nmt_nfc` for SentencePiece.

    Each is a line: hexadecimal code points of a text, a tab, and those of its replacement. White
    space becomes a space, control characters vanish, letters and marks become one character.
    """
    # The byte order mark and the replacement character become spaces, as with nmt_nfkc.
    rules = {"\ufeff": " ", "\ufffd": " "}
    # Higher characters never change.
    for character in map(chr, range(1, 0x30000)):
        if character.isspace():
            rules[character] = " "
        elif category(character) == "Cc":
            rules[character] = ""
        elif normalize("NFD", character) != character:
            rules |= dict.fromkeys(_spellings(character), normalize("NFC", character))
    changes = sorted((before, after) for before, after in rules.items() if before != after)
    return "".join(f"{_code_points(before)}\t{_code_points(after)}\n" for before, after in changes)


def _code_points(text: str) -> str:
    """Returns the hexadecimal code points of a text, such as "61 302" for a and a circumflex."""
    return " ".join(f"{ord(character):X}" for character in text)


def _spellings(character: str) -> Iterator[str]:
    """Yields the texts that normalize to a character in NFC, such as ê and a dot below for ệ.

    The character itself is the first; some may come several times.
    """
    yield character
    letter, *marks = list(normalize("NFD", character))
    # Each is a rule, since SentencePiece replaces texts as they are written: marks may be in any
    # order, and the first of them may be one character with the letter.
    for ordered in map("".join, permutations(marks)):
        for count in range(len(marks)):
            spelling = normalize("NFC", letter + ordered[:count]) + ordered[count:]
            # Some orders are other characters: of marks at the same place, the first is nearer.
            if normalize("NFC", spelling) == normalize("NFC", character):
                yield spelling


def _check_symbols(symbols: Sequence[str]) -> None:
    """Checks that symbols can be distinguished from other text.

    A symbol is recognized everywhere, so a plain word would be recognized inside longer words.

    Raises:
        UserError: one cannot.
    """
    if wrong := [symbol for symbol in symbols if not _is_symbol(symbol)]:
        problem = f"{wrong[0]!r} cannot be a symbol or a tag"
        expected = "letters or digits in brackets or other marks, without a space, such as <2de>"
        raise UserError(f"{problem}, expected {expected}, but not {', '.join(_RESERVED)}.")


def _is_symbol(symbol: str) -> bool:
    """Returns whether a text can be a symbol: a word between marks, such as <2de>."""
    has_marks = bool(symbol) and not symbol[0].isalnum() and not symbol[-1].isalnum()
    is_word = symbol.split() == [symbol] and SPACE_MARK not in symbol and symbol.isprintable()
    is_reserved = symbol in _RESERVED or symbol.startswith("<0x")  # <0x41> is a byte.
    has_text = any(character.isalnum() for character in symbol)
    return has_marks and is_word and has_text and not is_reserved


def _sample(count: int, size: int, seed: int) -> bytes:
    """Draws `size` of `count` sentences uniformly: a byte 1 or 0 for every sentence.

    This is Waterman's algorithm R on sentence numbers, so that the text need not be in memory.
    """
    generator = random.Random(seed)
    chosen = array("q", range(size))
    for number in range(size, count):
        if (slot := generator.randrange(number + 1)) < size:
            chosen[slot] = number
    sampled = np.zeros(count, dtype=bool)
    sampled[chosen] = True
    return sampled.tobytes()


def _count_words(sentences: Iterable[str]) -> Counter[str]:
    """Counts the words of sentences, which are split at spaces.

    SentencePiece learns the same model from counts of words as from the sentences, but would keep
    these in memory, at several times their size. In its table of counts, a tab ends the word.
    """
    words = (sentence.replace("\t", " ").split(" ") for sentence in sentences)
    return Counter(chain.from_iterable(words))
