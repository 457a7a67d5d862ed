"""Further training pairs, made from pairs of the corpus, for text that a small corpus hardly has.

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
        """Puts the variant of a pair, if it has one, behind it.

        Args:
            pairs: consecutive pairs of the training text.
            first: number of the first of them, from 0.

        Returns:
            all pairs, and the report on the variants among them.
        """
        extended, report = list[Pair](), CleaningReport()
        for number, pair in enumerate(pairs, first):
            extended.append(pair)
            kind, draw = self._draw(number)
            if kind:
                variant = _capitals(pair[0]), _capitals(pair[1])
                # In a script without capitals, the other side would stand alone in them.
                if kind == WORDS or variant[0] == pair[0] or variant[1] == pair[1]:
                    kind, variant = WORDS, _with_word(pair, draw)
                report.update([kind, "kept"])
                extended.append(variant)
        return extended, report

    def without_words(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that `extend` returned, except for the variants with random words.

        Args:
            pairs: from the first on, perhaps with tags since.
        """
        rest = iter(pairs)
        for number, pair in enumerate(rest):
            yield pair
            if self._draw(number)[0]:
                variant = next(rest)
                if variant[1] == _capitals(pair[1]) != pair[1]:
                    yield variant

    def _draw(self, number: int) -> tuple[str | None, random.Random]:
        """Returns the kind of a pair's variant, if it has one, and its random numbers."""
        draw = random.Random(f"{self.seed} {number}")
        shares = {CAPITALS: self.capitals, WORDS: self.words}
        return next((kind for kind in shares if draw.random() < shares[kind]), None), draw


_SYMBOL_OR_TEXT = re.compile(r"(<[^<>\s]+>)|([^<]+|<)")

_DIGIT = re.compile("[0-9]")

_WORD = re.compile(r"\w(?:\S*\w)?")
"""A word without the punctuation around it: a number, a name, a URL."""

_BODY = re.compile(r"^(.*?)(\W*)$", re.DOTALL)
"""A sentence, and the punctuation at its end."""

_NAME = "^"
_NUMBERS = tuple("0" * digits for digits in range(1, 7))
_WORDS = (
    *_NUMBERS, "0.0", "00,00", "0,000", "00:00", "0000-00-00", "00.00.0000",
    "A-0000", "AA 00", "AA-000000", "AAA00/0", _NAME, "^ ^", "https://www.~.com", "http://~.~.org/",
    "https://~.de/~/00", "www.~.net/~", "~@~.com", "~.~@~.org", "~_00@~.fr",
    "☺", "☺", "☺☺", "☺☺☺", "漢", "漢", "漢漢", "漢漢漢漢",
)  # fmt: skip
"""Patterns of random words. The digits of a date are random too: it is there to be copied."""

_EMOJI = ("🌀🙏", "🚀🛅", "☀⛿")
_SCRIPTS = ("αω", "ая", "את", "اغ", "अह", "ぁゖ", "一龥", "가힣", "←⇿")
"""First and last characters. A subword model that has not seen a character spells it in bytes."""


def _capitals(text: str) -> str:
    """Returns a text in capitals; symbols such as <2de> stay. German ß becomes SS."""
    return _SYMBOL_OR_TEXT.sub(lambda part: part[1] or part[2].upper(), text)


def _with_word(pair: Pair, draw: random.Random) -> Pair:
    """Replaces a number or a name that both sides have once; without any, adds a random word."""
    source, target = (_WORD.findall(side) for side in pair)
    common = [
        word
        for word in source
        if source.count(word) == target.count(word) == 1
        # The first word has a capital in any case: "In" may be English and German.
        if _DIGIT.search(word) or (word[0].isupper() and word not in (source[0], target[0]))
    ]
    if not common:
        return _with_added_word(pair, draw)
    old = draw.choice(common)
    # A time or a code keeps its form.
    pattern = _DIGIT.sub("0", old) if _DIGIT.search(old) else _NAME
    new = _random_word(draw.choice(_NUMBERS) if old.isdecimal() else pattern, draw)
    changed = (_WORD.sub(lambda word: new if word[0] == old else word[0], side) for side in pair)
    return next(changed), next(changed)


def _with_added_word(pair: Pair, draw: random.Random) -> Pair:
    """Puts the same random word at the beginning of both sides, at the end, or one at each."""
    first, last = (_random_word(draw.choice(_WORDS), draw) for _ in range(2))
    start = draw.choice(("{}: ", "{}, ", "{} – ", "{} ")).format(first)
    end = draw.choice((" {}", " ({})", ", {}", ": {}")).format(last)
    start, end = draw.choice(((start, ""), ("", end), (start, end)))
    changed = (_BODY.sub(lambda side: f"{start}{side[1]}{end}{side[2]}", side) for side in pair)
    return next(changed), next(changed)


def _random_word(pattern: str, draw: random.Random) -> str:
    """Fills the places of a pattern: 0, A, ~ (syllables), ^ (a name), ☺ and 漢 (a script)."""
    script = draw.choice(_SCRIPTS)

    def character(ends: str) -> str:
        return chr(draw.randint(*map(ord, ends)))

    def syllables() -> str:
        count = draw.randint(2, 4)
        return "".join(draw.choice("bdfghklmnprstvwz") + draw.choice("aeiou") for _ in range(count))

    fillers = {
        "0": lambda: draw.choice(string.digits),
        "A": lambda: draw.choice(string.ascii_uppercase),
        "~": syllables,
        _NAME: lambda: (syllables() + draw.choice(("", *"lnrst"))).capitalize(),
        "☺": lambda: character(draw.choice(_EMOJI)),
        "漢": lambda: character(script),
    }
    return "".join(fillers[place]() if place in fillers else place for place in pattern)
