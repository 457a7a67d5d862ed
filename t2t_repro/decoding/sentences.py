"""Translates lines sentence by sentence, and keeps white space and addresses as they are."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import east_asian_width

from sentencex import segment

from t2t_repro.config.values import texts
from t2t_repro.text.tags import languages_in_front

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

Piece = tuple[str, str]
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


class Row(NamedTuple):
    """The translation of a text, as a server answers.

    Attributes:
        translation: the text.
        score: of a line, the sum of its sentences' scores.
        truncated: whether something of the text was cut off.
        finished: whether the translation is whole, see `Translation`.
    """

    translation: str
    score: float
    truncated: bool
    finished: bool = True


def translate_sentences(
    lines: Sequence[str], language: str, translate: Callable[[Sequence[str]], Iterable[Row]]
) -> list[Row]:
    """Translates lines sentence by sentence; equal sentences are translated once.

    A sentence that is too long is halved at white space until its parts fit. One whose translation
    lacks an address is translated in the parts between addresses. The code of a target language in
    front of a line stands in front of all its sentences.

    Args:
        lines: any texts. The white space at the ends of a line stays, too.
        language: of `split`.
        translate: returns a row for each text. Only `truncated` is used of a row that is truncated,
            if there is white space in its text.
    """
    split_lines = [
        [(_coded(text, languages_in_front(line)), blank) for text, blank in split(line, language)]
        for line in texts("lines", lines)
    ]
    rows = {"": Row("", 0.0, False)}
    while unknown := [*{text: 0 for some in split_lines for text, _ in some if text not in rows}]:
        rows.update(zip(unknown, translate(unknown), strict=True))
        split_lines = [[part for one in some for part in _fit(one, rows)] for some in split_lines]
    return [_join(some, [rows[text] for text, _ in some]) for some in split_lines]


def translate_split(translator: "Translator", lines: Sequence[str], language: str) -> list[Row]:
    """Translates lines sentence by sentence with a translator; see `translate_sentences`."""

    def translate(sentences: Sequence[str]) -> Iterator[Row]:
        truncated = translator.truncated(sentences)
        cuts = zip(sentences, truncated, strict=True)
        whole = ["" if cut and _gaps(text) else text for text, cut in cuts]
        for (best, *_), cut in zip(translator.translate(whole, first=None), truncated, strict=True):
            yield Row(best.text, best.score, cut, best.finished)

    return translate_sentences(lines, language, translate)


def split(line: str, language: str) -> Iterator[Piece]:
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


def _fit(piece: Piece, rows: Mapping[str, Row]) -> Iterator[Piece]:
    """Halves a sentence that was truncated, and its halves, where there is white space.

    If its translation lacks what is to be kept, the sentence is divided there.
    """
    text, blank = piece
    row = rows.get(text)
    gaps = _gaps(text) if row and row.truncated else []
    if gaps:
        gap = gaps[len(gaps) // 2]
        yield from _fit((text[: gap.start()], gap[0]), rows)
        yield from _fit((_coded(text[gap.end() :], languages_in_front(text)), blank), rows)
    elif row and Counter(_KEPT.findall(text)) - Counter(_KEPT.findall(row.translation)):
        yield from filter(any, _between_kept(piece))
    else:
        yield piece


def _between_kept(piece: Piece) -> Iterator[Piece]:
    """Divides a sentence at what is to be kept, which stays with the punctuation around it."""
    text, blank = piece
    codes = languages_in_front(text)
    # What is before `place` has been dealt with.
    part, stays, place = "", "", len(codes)
    spans = [kept.span() for kept in _KEPT.finditer(text, place)]
    for start, end in [*spans, (len(text), len(text))]:
        words = _WORDS.search(text, place, start)
        if words and any(map(str.isalpha, words[0])):
            yield part, stays + text[place : words.start()]
            part, stays, place = _coded(words[0], codes), "", words.end()
        stays, place = stays + text[place:end], end
    yield part, stays + blank


def _gaps(text: str) -> list[re.Match[str]]:
    """Finds the white space in a sentence, after its codes."""
    return [*re.compile(r"\s+").finditer(text, len(languages_in_front(text)))]


def _join(pieces: Sequence[Piece], rows: Sequence[Row]) -> Row:
    # A model ends a part as a sentence. What follows a part has its own punctuation.
    parts = [
        row.translation.removesuffix(".") if stays.strip() else row.translation
        for (_, stays), row in zip(pieces, rows, strict=True)
    ]
    neighbours = zip(pieces, pairwise([*parts, ""]), strict=True)
    blanks = [blank or _blank(source, *both) for (source, blank), both in neighbours]
    line = "".join(chain(*zip(parts, blanks, strict=True)))
    _, scores, cuts, ends = zip(Row("", 0.0, False), *rows, strict=True)
    return Row(line, sum(scores), any(cuts), all(ends))


def _blank(source: str, translation: str, following: str) -> str:
    """Returns a blank where only the translations' language has blanks between sentences.

    Chinese and Japanese have none. Their quotation marks are other languages' too, so both
    translations are looked at.
    """
    widths = {east_asian_width(one) for one in translation[-1:] + following[:1]}
    is_missing = translation and following and east_asian_width(source[-1]) in "WFA"
    return " " if is_missing and not widths & {"W", "F"} else ""
