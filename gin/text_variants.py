"""Makes training pairs from pairs of the corpus, for text that a small corpus hardly has.

A model of 29,000 captions has seen few numbers, addresses and capitals, and writes something else
in their place. A variant is a pair in capitals, or a pair with the same random word on both sides,
from which a model learns to copy. Copied data: Currey et al. (2017), "Copied Monolingual Data
Improves Low-Resource Neural Machine Translation". Changes of case and inserted words: the modifiers
of OpusTrainer (Nieminen et al., 2023, arXiv:2311.14838).
"""

import random
import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from t2t_repro.config.values import Seed, Share, configurable
from t2t_repro.data.cleaning import CAPITALS, WORDS, CleaningReport
from t2t_repro.data.corpora.corpus import Pair


@configurable()
@dataclass(frozen=True)
class TextVariants:
    """Makes variants of some training pairs; the pairs themselves stay.

    In gin::

        import text_variants
        prepare.variants = @TextVariants()

    A variant is a function of the seed, the number of its pair and the pair. It is made once, when
    data are prepared, so every epoch has the same. Subwords are learned from the pairs and the
    variants in capitals, whose words then need not be spelled letter by letter: on Multi30k with
    8,000 subwords, they have 21 subwords a sentence instead of 51, and other text becomes 1 %
    longer. Subwords are not learned from variants with random words.

    Attributes:
        capitals: share of the pairs that have a variant with both sides in capitals.
        words: share of the other pairs that have a variant with a random word. It replaces a number
            or a name that both sides have, or is put at the beginning or the end of both sides.
        seed: of the random choices.
    """

    capitals: Share = 0.04
    words: Share = 0.2
    seed: Seed = 1

    def extend(self, pairs: Iterable[Pair], first: int) -> tuple[list[Pair], CleaningReport]:
        """Adds the variant of each pair that has one, directly after the pair.

        Args:
            pairs: consecutive pairs of the training text.
            first: number of the first of them, from 0.

        Returns:
            all pairs, and the report on the variants among them.
        """
        extended: list[Pair] = []
        report = CleaningReport()
        for number, pair in enumerate(pairs, first):
            extended.append(pair)
            kind, rng = self._draw_kind(number)
            if kind:
                made, variant = _variant(kind, pair, rng)
                report.update([made, "kept"])
                extended.append(variant)
        return extended, report

    def without_words(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that `extend` returned, except for the variants with random words.

        Args:
            pairs: all of them, from number 0; tags may be in front of their sources by now.
        """
        remaining = iter(pairs)
        for number, pair in enumerate(remaining):
            yield pair
            kind, _ = self._draw_kind(number)
            if kind:
                # Its kind may be another one (see `_variant`), so the text is compared.
                variant = next(remaining)
                if variant[1] != pair[1] and variant[1] == _capitals(pair[1]):
                    yield variant

    def _draw_kind(self, number: int) -> tuple[str | None, random.Random]:
        """Returns the kind of a pair's variant and the generator for further draws.

        The kind is CAPITALS, WORDS, or None for a pair without a variant.
        """
        rng = random.Random(f"{self.seed} {number}")
        for kind, share in ((CAPITALS, self.capitals), (WORDS, self.words)):
            if rng.random() < share:
                return kind, rng
        return None, rng


_SYMBOL_OR_TEXT = re.compile(r"(<[^<>\s]+>)|([^<]+|<)")

_DIGIT = re.compile("[0-9]")

_WORD = re.compile(r"\w(?:\S*\w)?")
"""A word without the punctuation around it: a number, a name, a URL."""

_BODY = re.compile(r"^(.*?)(\W*)$", re.DOTALL)
"""A sentence, and the punctuation at its end."""

_NAME = "^"
"""The pattern of a name (see `_random_word`)."""

_NUMBERS = tuple("0" * digits for digits in range(1, 7))
_WORDS = (
    *_NUMBERS, "0.0", "00,00", "0,000", "00:00", "0000-00-00", "00.00.0000",
    "A-0000", "AA 00", "AA-000000", "AAA00/0", _NAME, "^ ^", "https://www.~.com", "http://~.~.org/",
    "https://~.de/~/00", "www.~.net/~", "~@~.com", "~.~@~.org", "~_00@~.fr",
    "☺", "☺", "☺☺", "☺☺☺", "漢", "漢", "漢漢", "漢漢漢漢",
)  # fmt: skip
"""Patterns of random words. Digits of a date are random, too: the word is only to be copied."""

_EMOJI = ("🌀🙏", "🚀🛅", "☀⛿")
_SCRIPTS = ("αω", "ая", "את", "اغ", "अह", "ぁゖ", "一龥", "가힣", "←⇿")
"""First and last characters of scripts. Subword models spell unknown characters in bytes."""


def _variant(kind: str, pair: Pair, rng: random.Random) -> tuple[str, Pair]:
    """Returns the kind and the variant of a pair.

    The kind is the given one, or WORDS where capitals would not change a side.
    """
    source, target = _capitals(pair[0]), _capitals(pair[1])
    # If a side would stay as it is, as in a script without capitals, the pair gets a word instead.
    if kind == WORDS or source == pair[0] or target == pair[1]:
        return WORDS, _with_word(pair, rng)
    return CAPITALS, (source, target)


def _capitals(text: str) -> str:
    """Returns a text in capitals; symbols such as <2de> stay. German ß becomes SS."""
    return _SYMBOL_OR_TEXT.sub(lambda part: part[1] or part[2].upper(), text)


def _with_word(pair: Pair, rng: random.Random) -> Pair:
    """Replaces a number or a name that both sides have once by a random word, or else adds one.

    A name is a word with a capital that is not the first of its side.
    """
    source, target = (_WORD.findall(side) for side in pair)
    common = [word for word in source if source.count(word) == target.count(word) == 1]
    # The first word has a capital in any case: "In" may be English and German.
    names = {word for word in common if word[0].isupper() and word not in (source[0], target[0])}
    candidates = [word for word in common if word in names or _DIGIT.search(word)]
    if not candidates:
        return _with_added_word(pair, rng)
    old = rng.choice(candidates)
    # A time or a code keeps its form; a whole number may get another length.
    form = _DIGIT.sub("0", old) if _DIGIT.search(old) else _NAME
    new = _random_word(rng.choice(_NUMBERS) if old.isdecimal() else form, rng)

    def replace(side: str) -> str:
        return _WORD.sub(lambda word: new if word[0] == old else word[0], side)

    return replace(pair[0]), replace(pair[1])


def _with_added_word(pair: Pair, rng: random.Random) -> Pair:
    """Adds a random word at the beginning of both sides, at their end, or another one at each.

    A word at the end stands before the last punctuation: "A dog (0000)." of "A dog."
    """
    first, last = (_random_word(rng.choice(_WORDS), rng) for _ in range(2))
    before = rng.choice(("{}: ", "{}, ", "{} – ", "{} ")).format(first)
    after = rng.choice((" {}", " ({})", ", {}", ": {}")).format(last)
    start, end = rng.choice(((before, ""), ("", after), (before, after)))

    def add(side: str) -> str:
        return _BODY.sub(lambda match: f"{start}{match[1]}{end}{match[2]}", side)

    return add(pair[0]), add(pair[1])


def _random_word(pattern: str, rng: random.Random) -> str:
    """Returns a random word of a pattern.

    0 stands for a digit, A for a capital, ~ for syllables, ^ for a name, ☺ for an emoji, and 漢 for
    a character of one script in the whole word. Other characters stay.
    """
    script = rng.choice(_SCRIPTS)
    return "".join(_random_text(symbol, script, rng) for symbol in pattern)


def _random_text(symbol: str, script: str, rng: random.Random) -> str:
    """Returns the text for one symbol of a pattern (see `_random_word`)."""
    if symbol == "0":
        return rng.choice(string.digits)
    if symbol == "A":
        return rng.choice(string.ascii_uppercase)
    if symbol in ("☺", "漢"):
        ends = rng.choice(_EMOJI) if symbol == "☺" else script
        return chr(rng.randint(ord(ends[0]), ord(ends[1])))
    if symbol in ("~", _NAME):
        count = rng.randint(2, 4)
        text = "".join(rng.choice("bdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(count))
        return text if symbol == "~" else (text + rng.choice(("", *"lnrst"))).capitalize()
    return symbol
