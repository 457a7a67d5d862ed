"""Translates lines sentence by sentence, and keeps white space and addresses as they are."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from sentencex import segment

from t2t_repro.config.values import texts
from t2t_repro.decoding.search import Translation
from t2t_repro.progress import Report
from t2t_repro.text.tags import languages_in_front

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

SentencePart = tuple[str, str]
"""A sentence or a part of one, and what stays as it is after it: white space, addresses."""

_KEPT = re.compile(
    r"""(?:https?://|www\.)[^\s<>"\u2e80-\uffef]*(?:/|[^\W\u2e80-\uffef])
    |(?<![a-z0-9_.+-])[a-z0-9_.+-]++@[a-z0-9-]+(?:\.[a-z0-9-]+)+
    |\[X\d+X\]|\{\w*\}|%(?:\d\$|\(\w+\))?[sd](?![a-z])""",
    re.IGNORECASE | re.VERBOSE,
)
"""URLs, e-mail addresses, the places of Weblate and of format strings."""

_WORDS = re.compile(r"[^\s!-/:-@[-`{-~](?:.*[^\s!-/:-@[-`{-~])?", re.DOTALL)
"""A text without the white space and ASCII punctuation at its ends."""


def translate_split(
    translator: "Translator", lines: Sequence[str], language: str, report: Report = None
) -> list[Translation]:
    """Translates lines sentence by sentence with a translator; see `translate_sentences`."""

    def translate(sentences: Sequence[str]) -> Iterator[Translation]:
        return (best for best, *_ in translator.translate(sentences, first=None, report=report))

    return translate_sentences(lines, language, translate)


def translate_sentences(
    lines: Sequence[str],
    language: str,
    translate: Callable[[Sequence[str]], Iterable[Translation]],
) -> list[Translation]:
    """Translates lines sentence by sentence; equal sentences are translated once.

    A sentence that is too long is halved at white space until its parts fit. One whose translation
    lacks an address is translated in the parts between addresses. The code of a target language in
    front of a line stands in front of all its sentences.

    Args:
        lines: any texts. The white space at the ends of a line stays, too.
        language: of `split`.
        translate: returns a translation of each text. For a truncated text that contains white
            space, the translation is ignored.

    Returns:
        a translation of each line; its score is the sum of its sentences' scores.
    """
    split_lines = [
        [(_coded(text, languages_in_front(line)), blank) for text, blank in split(line, language)]
        for line in texts("lines", lines)
    ]
    known = {"": Translation("", 0.0)}
    while unknown := [*{text: 0 for line in split_lines for text, _ in line if text not in known}]:
        known.update(zip(unknown, translate(unknown), strict=True))
        split_lines = [
            [part for sentence in line for part in _fit(sentence, known)] for line in split_lines
        ]
    return [_join(line, [known[text] for text, _ in line]) for line in split_lines]


def split(line: str, language: str) -> Iterator[SentencePart]:
    """Splits a line into sentences; joined with their white space, they are the line.

    Args:
        line: any text. If it has line breaks, it is split at these too.
        language: a code of sentencex's, such as "de"; unknown ones are split as English.
    """
    for part in re.split(r"(?<=\n)", line):
        # sentencex 1.0.32 panics at "A." with white space beyond ASCII between the two.
        lengths = map(len, segment(language, re.sub(r"\s", " ", part)))
        for start, end in pairwise(accumulate(lengths, initial=0)):
            found = re.findall(r"(\S.*\S|\S|)(\s*)", part[start:end], re.DOTALL)
            yield from filter(any, found)


def _coded(text: str, codes: str) -> str:
    """Puts codes in front of a text that is not blank and lacks them."""
    return text if not text or text.startswith(codes) else codes + text


def _fit(sentence: SentencePart, known: Mapping[str, Translation]) -> Iterator[SentencePart]:
    """Halves a sentence that was truncated, and its halves, where there is white space.

    If its translation lacks what is to be kept, the sentence is divided there.
    """
    text, blank = sentence
    found = known.get(text)
    # White space after the codes.
    gaps = [*re.compile(r"\s+").finditer(text, len(languages_in_front(text)))]
    if found and found.truncated and gaps:
        gap = gaps[len(gaps) // 2]
        yield from _fit((text[: gap.start()], gap[0]), known)
        yield from _fit((_coded(text[gap.end() :], languages_in_front(text)), blank), known)
    elif found and Counter(_KEPT.findall(text)) - Counter(_KEPT.findall(found.text)):
        yield from filter(any, _between_kept(sentence))
    else:
        yield sentence


def _between_kept(sentence: SentencePart) -> Iterator[SentencePart]:
    """Splits a sentence around URLs, e-mail addresses and placeholders."""
    text, blank = sentence
    codes = languages_in_front(text)
    # The text before `place` is done.
    part, stays, place = "", "", len(codes)
    spans = [kept.span() for kept in _KEPT.finditer(text, place)]
    for start, end in [*spans, (len(text), len(text))]:
        words = _WORDS.search(text, place, start)
        if words and any(map(str.isalpha, words[0])):
            yield part, stays + text[place : words.start()]
            part, stays, place = _coded(words[0], codes), "", words.end()
        stays, place = stays + text[place:end], end
    yield part, stays + blank


def _join(sentences: Sequence[SentencePart], found: Sequence[Translation]) -> Translation:
    # A model ends a part as a sentence, but the text after the part has its own punctuation.
    parts = [
        translation.text.removesuffix(".") if stays.strip() else translation.text
        for (_, stays), translation in zip(sentences, found, strict=True)
    ]
    neighbours = zip(sentences, pairwise([*parts, ""]), strict=True)
    blanks = [blank or _blank(source, *both) for (source, blank), both in neighbours]
    return Translation(
        text="".join(chain(*zip(parts, blanks, strict=True))),
        score=sum((translation.score for translation in found), 0.0),
        finished=all(translation.finished for translation in found),
        truncated=any(translation.truncated for translation in found),
    )


def _blank(source: str, translation: str, following: str) -> str:
    """Returns a blank where only the translations' language has blanks between sentences.

    Chinese and Japanese have none. Their quotation marks are other languages' too, so both
    translations are looked at.
    """
    widths = {*map(east_asian_width, translation[-1:] + following[:1])}
    is_missing = translation and following and east_asian_width(source[-1]) in "WFA"
    return " " if is_missing and not widths & {"W", "F"} else ""
