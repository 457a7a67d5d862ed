"""Translates lines sentence by sentence, and keeps white space, addresses and the like."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from t2t_repro.config.values import texts
from t2t_repro.decoding.kept import KEPT, TAG, kept, masked, without_kept
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentence_split import SYMBOLS, split
from t2t_repro.progress import Report
from t2t_repro.text.tags import languages_in_front

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

# A sentence or a part of one, and what stays as it is after it: white space, addresses.
SentencePart = tuple[str, str]

# A text without the white space and punctuation at its ends.
_INSIDE = r"[^\s!-/:-@[-`{-~«»¿¡\u2010-\u2060\u3001-\u303f\uff01-\uff0f\uff1a-\uff20]"
_WORDS = re.compile(rf"{_INSIDE}(?:.*{_INSIDE})?", re.DOTALL)

# Around a sentence: marks, emoji and tags; before it, its number in a list too.
_MARK = rf"[*•·▪◦|>{SYMBOLS}]|#(?!\{{)|(?<!_)_(?!_)|{TAG}"
_MARKS = re.compile(rf"(?:{_MARK})(?:{_MARK}|\s)*+", re.IGNORECASE)
_LEAD = re.compile(rf"(?:{_MARK}|\s|(?:\d{{1,3}}[.)]|\(\d{{1,3}}\)|[-–—+])\s)*+", re.IGNORECASE)

# Where a long sentence is halved.
_GAP = re.compile(r"\s+|(?<=[、，；：])(?!\Z)")


def translate_split(
    translator: "Translator", lines: Sequence[str], language: str, report: Report = None
) -> list[Translation]:
    """Translates lines sentence by sentence with a translator; see `translate_sentences`."""

    def translate(sentences: Sequence[str]) -> Iterator[Translation]:
        return (best for best, *_ in translator.translate(sentences, first=None, report=report))

    return translate_sentences(lines, language, translate, partial(find_long, translator))


def find_long(translator: "Translator", sentences: Sequence[str], tag: str = "") -> set[str]:
    """Returns the sentences that are longer, with a tag, than those of the training."""
    longest = translator.max_source_length
    longest = min(translator.settings.trained_length or longest, longest)
    # A subword has a byte or more, but for EOS and the mark of the first word.
    some = [text for text in sentences if len(f"{tag} {text}".encode()) + 2 > longest]
    encoded = translator.subwords.source.encode([f"{tag} {text}".strip() for text in some])
    return {text for text, ids in zip(some, encoded, strict=True) if len(ids) > longest}


def translate_sentences(
    lines: Sequence[str],
    language: str,
    translate: Callable[[Sequence[str]], Iterable[Translation]],
    long: Callable[[Sequence[str]], Collection[str]] = lambda sentences: (),
) -> list[Translation]:
    """Translates lines sentence by sentence; equal sentences are translated once.

    A sentence that is too long is halved at white space. A translation has
    addresses, placeholders and the like exactly as often as its line: where it would not, the parts
    between them are translated. What has no words stays as it is. The code of a target language in
    front of a line stands in front of all its sentences.

    Args:
        lines: any texts. The white space at the ends of a line stays, too.
        language: of `split`.
        translate: returns a translation of each text. For a truncated text that contains white
            space, the translation is ignored.
        long: returns which texts are halved without a translation, where they can be.

    Returns:
        a translation of each line; its score is the sum of its sentences' scores.
    """
    lines = texts("lines", lines)
    split_lines = [[*_parts(line, language)] for line in lines]
    known = {"": Translation("", 0.0)}
    while unknown := [*{text: 0 for line in split_lines for text, _ in line if text not in known}]:
        halved = {text for text in long(unknown) if _gaps(text)}
        known.update(dict.fromkeys(halved, Translation("", 0.0, truncated=True)))
        whole = [text for text in unknown if text not in halved]
        known.update(zip(whole, translate(whole), strict=True))
        split_lines = [
            [part for sentence in line for part in _fit(sentence, known)] for line in split_lines
        ]
    return [_join(*of_line, known) for of_line in zip(lines, split_lines, strict=True)]


def _parts(line: str, language: str) -> Iterator[SentencePart]:
    """Splits a line into sentences with the codes in front of the line."""
    codes = languages_in_front(line)
    start = line.index(codes)
    yield "", line[:start] + codes[len(codes.rstrip()) :].lstrip(" ")
    for sentence in split(line[start + len(codes) :], language):
        yield from _without_marks(sentence, codes)


def _without_marks(sentence: SentencePart, codes: str) -> Iterator[SentencePart]:
    """Separates marks, emoji and tags at the ends of a sentence; all of it if it has no words."""
    text, blank = sentence
    if not any(map(str.isalpha, without_kept(text))):
        yield "", text + blank
    elif text[0].isalpha() and (text[-1].isalpha() or text[-1] in ".!?"):
        yield codes + text, blank
    else:
        start = found.end() if (found := _LEAD.match(text)) else 0
        ends = [run.start() for run in _MARKS.finditer(text, start) if run.end() == len(text)]
        words = text[start : ends[0] if ends else None].rstrip()
        yield "", text[:start]
        yield codes + words, text[start + len(words) :] + blank


def _gaps(text: str) -> list[re.Match[str]]:
    """Returns where a text can be halved: after its codes, outside of what is kept."""
    return [*_GAP.finditer(masked(text), len(languages_in_front(text)))]


def _fit(sentence: SentencePart, known: Mapping[str, Translation]) -> Iterator[SentencePart]:
    """Halves a sentence that was truncated, and its halves, where there is white space.

    If its translation has not what is kept, the sentence is divided there.
    """
    text, blank = sentence
    found = known.get(text)
    if found and found.truncated and (gaps := _gaps(text)):
        codes = languages_in_front(text)
        start, end = gaps[len(gaps) // 2].span()
        for half in (text[len(codes) : start], text[start:end]), (text[end:], blank):
            for part in _without_marks(half, codes):
                yield from _fit(part, known)
    elif found and (own := kept(text)) and own != kept(found.text):
        yield from filter(any, _between_kept(sentence))
    else:
        yield sentence


def _between_kept(sentence: SentencePart) -> Iterator[SentencePart]:
    """Splits a sentence around what is kept."""
    text, blank = sentence
    codes = languages_in_front(text)
    # The text before `place` is done.
    part, stays, place = "", "", len(codes)
    spans = [found.span() for found in KEPT.finditer(text, place)]
    for start, end in [*spans, (len(text), len(text))]:
        words = _WORDS.search(text, place, start)
        if words and any(map(str.isalpha, words[0])):
            yield part, stays + text[place : words.start()]
            part, stays, place = codes + words[0], "", words.end()
        stays, place = stays + text[place:end], end
    yield part, stays + blank


def _join(
    line: str, parts: Sequence[SentencePart], known: Mapping[str, Translation]
) -> Translation:
    """Joins the translations of a line's parts; the line itself if what is kept still differs."""
    codes, found = languages_in_front(line), [known[text] for text, _ in parts]
    # Of each piece, the source and what stands for it.
    pieces = []
    for (text, stays), translation in zip(parts, found, strict=True):
        source, best = text.removeprefix(codes), translation.text
        if kept(best) != kept(source):
            # The model has added something.
            shorter = " ".join(without_kept(best).split())
            best = shorter if shorter and kept(shorter) == kept(source) else source
        # A model ends a part as a sentence, but the text after the part has its own punctuation.
        is_part = stays.strip() and not source.endswith(".")
        pieces += [(source, best.removesuffix(".") if is_part else best), (stays, stays)]
    two = pairwise([("", ""), *(piece for piece in pieces if piece[1])])
    joined = "".join(_blank(*both) + both[1][1] for both in two)
    return Translation(
        text=joined if kept(joined) == kept(line) else line.replace(codes, "", 1),
        score=sum((translation.score for translation in found), 0.0),
        finished=all(translation.finished for translation in found),
        truncated=any(translation.truncated for translation in found),
    )


def _blank(left: tuple[str, str], right: tuple[str, str]) -> str:
    """Returns a blank between two pieces where only the translations' language has blanks.

    Chinese and Japanese have none. Their quotation marks are other languages' too, so both
    translations are looked at.
    """
    (source, text), (next_source, next_text) = left, right
    if not text or text[-1].isspace() or next_text[0].isspace():
        return ""
    is_next = next_source != next_text
    was_wide = source != text and east_asian_width(source[-1]) in ("WFA" if is_next else "WF")
    was_wide |= is_next and east_asian_width(next_source[0]) in "WF"
    is_wide = {"W", "F"} & {east_asian_width(text[-1]), east_asian_width(next_text[0])}
    return " " if was_wide and not is_wide else ""
