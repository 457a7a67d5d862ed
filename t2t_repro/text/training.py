"""Learns a SentencePiece BPE vocabulary.

Vaswani et al. (2017), section 5.1: "sentences were encoded using byte-pair encoding, which has a
shared source-target vocabulary of about 37000 tokens".
"""

import io
import random
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import compress, permutations
from pathlib import Path
from typing import Annotated, Any, Literal
from unicodedata import category, normalize

import gin
import numpy as np
import sentencepiece
from absl import logging
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.config.values import Count, Range, validated
from t2t_repro.errors import UserError
from t2t_repro.files import write_whole
from t2t_repro.text.sentencepiece import SentencePieceModel, as_utf8
from t2t_repro.text.subword_model import Sentences
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

_RESERVED = ("<unk>", "<s>", "</s>", "<pad>")


@gin.configurable
@validated
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
        UserError: a value is out of range, or a symbol cannot be told from other text.
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
        check_symbols("SubwordTraining.symbols", self.symbols)

    def describe(self) -> dict[str, Any]:
        """Returns the settings that identify the vocabulary of a corpus."""
        # Data prepared before symbols and word marks existed lack these two.
        left_out = {"symbols": not self.symbols, "word_mark": self.word_mark == "start"}
        return {name: value for name, value in asdict(self).items() if not left_out.get(name)}

    def pieces(self) -> None:
        """Returns None: the pieces are not known before training."""

    def with_symbols(self, symbols: Sequence[str]) -> "SubwordTraining":
        """Returns the recipe with further symbols."""
        return replace(self, symbols=tuple(dict.fromkeys((*self.symbols, *symbols))))

    def train(self, sentences: Sentences, model_path: Path) -> SentencePieceModel:
        """Learns the vocabulary and writes its file, whole or not at all.

        The same sentences and recipe give the same bytes.

        Args:
            sentences: in any order; of source and target if they share the vocabulary. Read once,
                in bounded memory.
            model_path: the file to write or replace.

        Raises:
            UserError: there is no text, or too little for `vocab_size`.
        """
        logging.info("data: learning %d subwords: %s", self.vocab_size, model_path.name)
        sampled = _sample(len(sentences), self.sample_size, self.seed)
        counts = _count_words(compress(sentences, sampled))
        model = io.BytesIO()
        # Stands in the model file, so it is passed only where needed.
        at_end = self.word_mark == "end"
        options: dict[str, Any] = {"treat_whitespace_as_suffix": True} if at_end else {}
        if self.normalization == "nmt_nfc":
            model_path.parent.mkdir(parents=True, exist_ok=True)
            options["normalization_rule_tsv"] = str(model_path.with_suffix(".rules"))
            model_path.with_suffix(".rules").write_text(_nfc_rules(), encoding="ascii")
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_pop_words(counts),
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
                # SentencePiece silently skips longer sentences.
                max_sentence_length=2**30,
                # Stands in the model file, so it must not depend on the machine.
                num_threads=4,
                minloglevel=2,
                **options,
            )
        except RuntimeError as error:
            raise UserError(_training_failure(str(error), self.vocab_size)) from error
        finally:
            model_path.with_suffix(".rules").unlink(missing_ok=True)
        proto = ModelProto.FromString(model.getvalue())
        # A file learned from sentences has none.
        proto.trainer_spec.ClearField("input_format")
        # A file of rules has no name, and its path is of this run.
        proto.normalizer_spec.name = self.normalization
        proto.normalizer_spec.ClearField("normalization_rule_tsv")
        write_whole(model_path, proto.SerializeToString())
        return SentencePieceModel(model_path)


@cache
def _nfc_rules() -> str:
    """Returns the rules of `nmt_nfc` for SentencePiece: lines of code points, before and after."""
    rules = {"\ufeff": " ", "\ufffd": " "}
    # No character beyond these is changed.
    for character in map(chr, range(1, 0x30000)):
        if character.isspace():
            rules[character] = " "
        elif category(character) == "Cc":
            rules[character] = ""
        elif (apart := normalize("NFD", character)) != character:
            rules[character] = composed = normalize("NFC", character)
            # However many of the marks are composed already, in any order.
            for marks in map("".join, permutations(apart[1:])):
                for done in range(len(marks) + 1):
                    text = normalize("NFC", apart[0] + marks[:done]) + marks[done:]
                    if normalize("NFC", text) == composed:
                        rules[text] = composed
    changes = sorted(pair for pair in rules.items() if pair[0] != pair[1])
    codes = ([" ".join(f"{ord(one):X}" for one in side) for side in pair] for pair in changes)
    return "".join(f"{before}\t{after}\n" for before, after in codes)


def check_symbols(parameter: str, symbols: Sequence[str]) -> None:
    """Checks that symbols can be told from other text.

    A symbol is recognized everywhere, so a plain word would be recognized inside longer words.

    Args:
        parameter: where they were given, such as "Mixture.tags".
        symbols: the symbols.

    Raises:
        UserError: a symbol cannot be told from other text.
    """
    for symbol in symbols:
        if not _is_symbol(symbol):
            raise UserError(
                f"{parameter} is {symbol!r}, expected letters or digits in brackets or other "
                f"marks, without a space, such as <2de>, but not {', '.join(_RESERVED)}."
            )


def _is_symbol(symbol: str) -> bool:
    has_marks = bool(symbol) and not symbol[0].isalnum() and not symbol[-1].isalnum()
    is_word = len(symbol.split()) == 1 and "\u2581" not in symbol and symbol.isprintable()
    is_free = symbol not in _RESERVED and not symbol.startswith("<0x")
    has_text = any(character.isalnum() for character in symbol)
    return has_marks and is_word and is_free and has_text


def _sample(count: int, size: int, seed: int) -> bytes:
    """Draws `size` of `count` sentences uniformly: returns 1 or 0 for every sentence.

    Waterman's algorithm R on sentence numbers, so that the text need not be in memory.
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
    """Counts words, from which SentencePiece learns the same model as from the sentences.

    It would keep all sentences in memory, at several times their size.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence.replace("\t", " ").split(" "))
    return counts


def _pop_words(counts: Counter[str]) -> Iterator[bytes]:
    """Yields lines of a word and its count, and frees them as SentencePiece copies them."""
    while counts:
        word, count = counts.popitem()
        if word:
            yield as_utf8(word) + b"\t%d" % count


def _training_failure(message: str, vocab_size: int) -> str:
    """Returns SentencePiece's reason in one line that says how to fix it."""
    if too_high := re.search(r"Vocabulary size too high.*<= (\d+)", message):
        return (
            f"SubwordTraining.vocab_size is {vocab_size}, but this corpus has only enough text "
            f"for {too_high[1]}; set SubwordTraining.vocab_size to at most that, or give more text."
        )
    if too_low := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"SubwordTraining.vocab_size is {vocab_size}, but special ids, bytes and characters "
            f"need {too_low[1]}; set SubwordTraining.vocab_size higher or character_coverage lower."
        )
    return f"SentencePiece cannot train with these settings: {' '.join(message.split())}"
