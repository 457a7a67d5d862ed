"""Translates lines sentence by sentence, and keeps white space, addresses and the like."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from t2t_repro.config.values import texts
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.kept import KEPT, TAG, WORDS, kept, masked
from t2t_repro.decoding.markup import Align, elements, lift, translate_marked
from t2t_repro.decoding.repetition import SIGN, without_cycles
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentence_split import SYMBOLS, split
from t2t_repro.progress import Report
from t2t_repro.text.scripts import length_in_letters
from t2t_repro.text.tags import languages_in_front

# A sentence or a part of one, and what stays as it is after it: white space, addresses.
SentencePart = tuple[str, str]
# The parts of a text, and the most letters of their translations for which it stays whole.
_Division = tuple[list[SentencePart], float]

# Around a sentence: emphasis, emoji and tags. Before it, punctuation on its own that opens nothing,
# and the number of a list; after it, what begins something else, as in HTML before a tag.
_MARK = rf"\s|&nbsp;|(?-i:\\[nrt](?![a-z]))|~~|[*•·|{SYMBOLS}]|(?<!_)_(?!_)|{TAG}"
_LEAD = re.compile(rf"(?i)(?:{_MARK}|[^\w\s{{}}%$@(\[«“„]++(?<![\"'])\s|\(?\d{{1,3}}[.)]\s)*+")
_TAIL = re.compile(rf"(?i)(?:{_MARK}|[,(\[{{«“‘„¿¡]|(?<=\s)[-–—/#\"'&]+)++|\Z")

_NUMBER = re.compile(r"\d+")


def translate_split(
    engine: Engine, lines: Sequence[str], language: str, report: Report = None
) -> list[Translation]:
    """Translates lines sentence by sentence with an engine (see `translate_sentences`).

    `report` is called as in `Engine.translate`; it begins again for halves of sentences.
    """

    def translate(sentences: Sequence[str]) -> Iterator[Translation]:
        # Sentences have no line numbers that a warning could give.
        return (best for best, *_ in engine.translate(sentences, first=None, report=report))

    long = partial(find_long, engine)
    return translate_sentences(lines, language, translate, long, find_aligner(engine))


def find_long(engine: Engine, sentences: Sequence[str], tag: str = "") -> set[str]:
    """Returns the sentences that have more subwords, with a tag, than the longest in training.

    Markup that is taken out before a sentence is translated does not count.
    """
    plain = (lift(text)[0] if engine.aligns else text for text in sentences)
    encoded = engine.subwords.source.encode([f"{tag} {text}".strip() for text in plain])
    longest = engine.trained_length
    return {text for text, ids in zip(sentences, encoded, strict=True) if len(ids) > longest}


def find_aligner(engine: Engine, tag: str = "") -> Align | None:
    """Returns a function that aligns sentences, with a tag in front; None without alignment."""
    align_lines: Any = engine.align

    def align(sources: Sequence[str], targets: Sequence[str]) -> Iterator[dict[int, int]]:
        for links in align_lines([f"{tag} {text}".strip() for text in sources], targets):
            yield {int(b): int(a) - len(tag.split()) for a, b in re.findall(r"(\d+)-(\d+)", links)}

    return align if engine.aligns else None


def translate_sentences(
    lines: Sequence[str],
    language: str,
    translate: Callable[[Sequence[str]], Iterable[Translation]],
    long: Callable[[Sequence[str]], Collection[str]] = lambda sentences: (),
    align: Align | None = None,
) -> list[Translation]:
    """Translates lines sentence by sentence.

    Equal sentences are translated once. A sentence is halved, at a comma or else at white space, if
    it is too long or its translation repeats itself. A long sentence, or one whose translation has
    lost much, is translated in halves too; these are taken if they are longer by more than a ninth.
    URLs, placeholders and the like occur in a translation exactly as often as in its line.
    Otherwise the parts between them are translated by themselves; so are the parts between tags
    that alignment does not place. Text without words stays as it is. The code of a target language
    in front of a line is put in front of each of its sentences.

    Args:
        lines: any texts. The white space at the ends of a line stays, too.
        language: the code of the source language, for `split`.
        translate: returns a translation of each text. For a truncated text that contains white
            space, the translation is ignored.
        long: returns the texts that are too long to be translated whole.
        align: aligns texts with their translations.

    Returns:
        a translation of each line; its score is the sum of its sentences' scores.
    """
    lines = [line.removeprefix("\ufeff") for line in texts("lines", lines)]
    split_lines = [[*_parts(line, language)] for line in lines]
    known = {"": Translation("", 0.0)}
    divided: dict[str, _Division] = {}
    asked = [text for line in split_lines for text, _ in line]
    while unknown := [text for text in dict.fromkeys(asked) if text not in known]:
        known |= {text: Translation("", 0, truncated=True) for text in long(unknown) if _gaps(text)}
        whole = [text for text in unknown if text not in known]
        known.update(zip(whole, translate_marked(whole, translate, align), strict=True))
        divided |= {text: _divide(text, known[text]) for text in unknown}
        asked = [part for text in unknown for part, _ in divided[text][0]]
    best = {text: _without_additions(text, one.text) for text, one in known.items()}
    fit = ([part for one in line for part in _fit(one, best, divided)] for line in split_lines)
    return [_join(*of_line, known, best) for of_line in zip(lines, fit, strict=True)]


def _parts(line: str, language: str) -> Iterator[SentencePart]:
    """Splits a line into sentences with the codes in front of the line."""
    codes = languages_in_front(line)
    start = line.index(codes)
    yield "", line[:start] + codes[len(codes.rstrip()) :].lstrip(" ")
    for sentence in split(line[start + len(codes) :], language):
        yield from _split_marks(sentence, codes)


def _split_marks(sentence: SentencePart, codes: str) -> Iterator[SentencePart]:
    """Splits off the marks around a sentence; without words, all of it is marks."""
    text, blank = sentence
    if not any(map(str.isalpha, masked(text, " "))):
        yield "", text + blank
    elif text[0].isalpha() and (text[-1].isalpha() or text[-1] in ".!?。！？"):
        yield codes + text, blank
    else:
        lead = len(text) - len(_LEAD.sub("", text, count=1))
        tail = next(run.start() for run in _TAIL.finditer(text, lead) if run.end() == len(text))
        # An element that ends in the sentence begins there, too.
        spans = [(opening.start(), *closing.span()) for _, opening, closing in elements(text)]
        start = min([lead, *(first for first, end, _ in spans if first < lead <= end < tail)])
        end = max([tail, *(end for first, _, end in spans if first >= start and end > tail)])
        yield "", text[:start]
        yield codes + text[start:end], text[end:] + blank


def _gaps(text: str) -> list[re.Match[str]]:
    """Returns the gaps at which a text can be halved: after commas or words, not in kept parts."""
    shown, start = masked(text), len(languages_in_front(text))
    commas = re.compile(r"(?<=[,;:،؛—])\s++(?!\d)|(?<=[、，；：])(?!\Z)")
    return [*commas.finditer(shown, start)] or [*re.compile(r"\s+").finditer(shown, start)]


def _divide(text: str, found: Translation) -> _Division:
    """Halves a text if its translation is bad, or may be.

    It may be if much of a text or a number is lost, or the text is long: the halves then show the
    usual length. If the translation has not the same kept parts, the text is divided there.
    """
    letters, own = length_in_letters(found.text), length_in_letters(text)
    is_bad = found.truncated or without_cycles(found.text, text) != found.text
    is_less = own > 1.5 * letters or len(_NUMBER.findall(text)) > len(_NUMBER.findall(found.text))
    is_doubtful = letters > 0 and (own > 250 or (own > 40 and is_less))
    codes = languages_in_front(text)
    parts_to_keep = kept(text.removeprefix(codes))
    is_broken = bool(parts_to_keep) and parts_to_keep != kept(found.text)
    if (is_bad or is_doubtful) and (gaps := _gaps(text)):
        start, end = gaps[len(gaps) // 2].span()
        halves = (text[len(codes) : start], text[start:end]), (text[end:], "")
        parts = [part for half in halves for part in _split_marks(half, codes)]
        return parts, -1 if is_bad or is_broken else letters / 0.9
    return ([*_between_kept(text)], -1) if is_broken else ([], 0)


def _fit(
    sentence: SentencePart, best: Mapping[str, str], divided: Mapping[str, _Division]
) -> list[SentencePart]:
    """Replaces a sentence by its parts, and these by theirs, where they are better."""
    text, blank = sentence
    division, most = divided.get(text, ([], 0))
    parts = [one for part in division for one in _fit(part, best, divided)]
    if sum(length_in_letters(best[part]) for part, _ in parts) <= most:
        return [sentence]
    *parts, (last, stays) = parts
    return [*parts, (last, stays + blank)]


def _between_kept(text: str) -> Iterator[SentencePart]:
    """Splits a sentence into the texts between its kept parts, which stay."""
    codes = languages_in_front(text)
    done = len(codes)
    spans = [part.span() for part in KEPT.finditer(text, done)]
    for start, end in [*spans, (len(text), len(text))]:
        words = WORDS.search(text, done, start)
        # Words that would be kept without the text before them stay, too.
        if words and any(map(str.isalpha, words[0])) and not kept(words[0]):
            yield "", text[done : words.start()]
            yield codes + words[0], text[words.end() : end]
        else:
            yield "", text[done:end]
        done = end


def _without_additions(text: str, translation: str) -> str:
    """Returns a part's translation without cycles and the model's additions."""
    source, best = text.removeprefix(languages_in_front(text)), without_cycles(translation, text)
    if kept(best) != kept(source):
        best = " ".join(masked(best, " ").split()) or source
    # Subwords may be normalised, and have none.
    return best.replace("...", "…") if "…" in source and "..." not in source else best


def _join(
    line: str,
    parts: Sequence[SentencePart],
    known: Mapping[str, Translation],
    best: Mapping[str, str],
) -> Translation:
    """Joins the translations of a line's parts; the line itself if what is kept still differs."""
    translations = [known[text] for text, _ in parts]
    codes = languages_in_front(line)
    line = line.replace(codes, "", 1)
    # Pieces: the source, and what stands for it.
    pieces = [(" ", " ")]
    for text, stays in parts:
        source, target = text.removeprefix(codes), best[text]
        # A model ends a part as a sentence, but the text after the part has its own punctuation.
        is_part = stays.strip() and not source.endswith(".")
        target = target[:-1] if is_part and target[-1:] in (".", ",") else target
        pieces += [piece for piece in ((source, target), (stays, stays)) if piece[1]]
    joined = "".join(_blank(left, right) + right[1] for left, right in pairwise(pieces))
    return Translation(
        text=joined if kept(joined) == kept(line) else line,
        score=sum((translation.score for translation in translations), 0.0),
        finished=all(translation.finished for translation in translations),
        truncated=any(translation.truncated for translation in translations),
    )


def _blank(left: tuple[str, str], right: tuple[str, str]) -> str:
    """Returns a blank between two pieces where only the translations' language has blanks."""
    source, text = left[0][-1] + right[0][0], left[1][-1] + right[1][0]
    # Chinese quotation marks are other languages' too.
    has_none = re.search(rf"\s|{SIGN}", text)
    return " " if not has_none and re.search(f"{SIGN}|”“", source) else ""
