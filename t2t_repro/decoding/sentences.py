"""Translates lines sentence by sentence, and keeps white space, addresses and the like."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from t2t_repro.config.values import texts
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.kept import KEPT, TAG, WORDS, kept, masked
from t2t_repro.decoding.markup import Align, Translate, elements, take_out_markup, translate_marked
from t2t_repro.decoding.repetition import SIGN, without_cycles
from t2t_repro.decoding.search import Translation
from t2t_repro.decoding.sentence_split import SYMBOLS, split
from t2t_repro.progress import Report
from t2t_repro.text.scripts import length_in_letters
from t2t_repro.text.tags import languages_in_front

# A sentence or a part of one, and the text after it that is not translated: white space, addresses.
SentencePart = tuple[str, str]
# The parts of a text, and a limit: they are used if their translations have more letters than this.
_Division = tuple[list[SentencePart], float]
_Translations = Mapping[str, Translation]

# Around a sentence: white space, emphasis, emoji and tags. Before it also punctuation on its own
# that opens nothing, and the number of a list; after it also punctuation that opens something, as
# in HTML before a tag.
_MARK = rf"\s|&nbsp;|(?-i:\\[nrt](?![a-z]))|~~|[*•·|{SYMBOLS}]|(?<!_)_(?!_)|{TAG}"
_LEAD = re.compile(rf"(?i)(?:{_MARK}|[^\w\s{{}}%$@(\[«“„]++(?<![\"'])\s|\(?\d{{1,3}}[.)]\s)*+")
_TAIL = re.compile(rf"(?i)(?:{_MARK}|[,(\[{{«“‘„¿¡]|(?<=\s)[-–—/#\"'&]+)++|\Z")

_COMMA_GAP = re.compile(r"(?<=[,;:،؛—])\s++(?!\d)|(?<=[、，；：])(?!\Z)")
_BLANK_GAP = re.compile(r"\s+")


def translate_split(
    engine: Engine, lines: Sequence[str], language: str, report: Report = None
) -> list[Translation]:
    """Translates lines sentence by sentence with an engine (see `translate_sentences`).

    `report` is called as in `Engine.translate`, and begins again for halves of sentences.
    """

    def translate(sentences: Sequence[str]) -> Iterator[Translation]:
        # Sentences have no line numbers that a warning could give.
        return (best for best, *_ in engine.translate(sentences, first=None, report=report))

    long = partial(find_long, engine)
    return translate_sentences(lines, language, translate, long, find_aligner(engine))


def find_long(engine: Engine, sentences: Sequence[str], tag: str = "") -> set[str]:
    """Returns the sentences that have more subwords, with `tag` in front, than any in training.

    Markup that is taken out before the translation does not count.
    """
    plain = (take_out_markup(text)[0] if engine.aligns else text for text in sentences)
    encoded = engine.subwords.source.encode([f"{tag} {text}".strip() for text in plain])
    longest = engine.trained_length
    return {text for text, ids in zip(sentences, encoded, strict=True) if len(ids) > longest}


def find_aligner(engine: Engine, tag: str = "") -> Align | None:
    """Returns a function that aligns sentences, with `tag` in front; None if the engine cannot."""
    align_lines = engine.align
    if align_lines is None or not engine.aligns:
        return None

    def align(sources: Sequence[str], targets: Sequence[str]) -> Iterator[dict[int, int]]:
        for links in align_lines([f"{tag} {text}".strip() for text in sources], targets):
            # "a-b" links source word a with target word b. The words of the tag do not count.
            yield {int(b): int(a) - len(tag.split()) for a, b in re.findall(r"(\d+)-(\d+)", links)}

    return align


def translate_sentences(
    lines: Sequence[str],
    language: str,
    translate: Translate,
    long: Callable[[Sequence[str]], Collection[str]] = lambda sentences: (),
    align: Align | None = None,
) -> list[Translation]:
    """Translates lines sentence by sentence.

    Equal sentences are translated once. A sentence is halved, at a comma or else at white space, if
    it is too long or its translation repeats itself. A long sentence, or one whose translation has
    lost much, is translated in halves too; these are used if they are longer by more than a ninth.
    URLs, placeholders and the like occur in a translation exactly as often as in its line. If the
    model does not keep them, the parts between them are translated by themselves; so are the parts
    between tags that alignment cannot place. Text without words stays as it is. The code of a
    target language in front of a line is put in front of each of its sentences, and left out of the
    translation.

    Args:
        lines: any texts. White space at the ends of a line stays, too.
        language: the code of the source language, for `split`.
        translate: returns a translation of each text. For a truncated text that contains white
            space, the translation is ignored.
        long: returns the texts that are too long to be translated whole.
        align: aligns texts with their translations.

    Returns:
        a translation of each line; its score is the sum of its sentences' scores.
    """
    lines = [line.removeprefix("\ufeff") for line in texts("lines", lines)]
    split_lines = [[*_split_line(line, language)] for line in lines]
    translations = {"": Translation("", 0.0)}
    divisions: dict[str, _Division] = {}
    wanted = [text for parts in split_lines for text, _ in parts]
    # Parts of a text are translated in the next round.
    while new := [text for text in dict.fromkeys(wanted) if text not in translations]:
        # Texts that are too long are not translated: `_divide` halves truncated ones.
        too_long = [text for text in long(new) if _gaps(text)]
        translations |= dict.fromkeys(too_long, Translation("", 0, truncated=True))
        whole = [text for text in new if text not in translations]
        translations.update(zip(whole, translate_marked(whole, translate, align), strict=True))
        divisions |= {text: _divide(text, translations[text]) for text in new}
        wanted = [part for text in new for part, _ in divisions[text][0]]
    cleaned = {text: _without_additions(text, found) for text, found in translations.items()}
    used_parts = [[*_used_parts(parts, cleaned, divisions)] for parts in split_lines]
    return [_join(line, parts, cleaned) for line, parts in zip(lines, used_parts, strict=True)]


def _split_line(line: str, language: str) -> Iterator[SentencePart]:
    """Splits a line into sentences, each with the codes of languages in front of the line."""
    codes = languages_in_front(line)
    start = line.index(codes)
    # Blanks after the codes belong to them; other white space stays.
    yield "", line[:start] + codes[len(codes.rstrip()) :].lstrip(" ")
    for sentence in split(line[start + len(codes) :], language):
        yield from _split_marks(sentence, codes)


def _split_marks(sentence: SentencePart, codes: str) -> Iterator[SentencePart]:
    """Splits off the marks around a sentence; one without letters is a mark as a whole.

    A mark follows an empty sentence.

    Args:
        sentence: a sentence, and the text after it.
        codes: are put in front of the sentence without its marks.
    """
    text, after = sentence
    # A kept part, such as "\\n" in a catalogue, may be a mark though it ends in a letter.
    shown = masked(text, " ")
    if not any(map(str.isalpha, shown)):
        yield "", text + after
    elif shown[0].isalpha() and (shown[-1].isalpha() or shown[-1] in ".!?。！？"):
        # Certainly no marks: the quick way for most sentences.
        yield codes + text, after
    else:
        start, end = _between_marks(text)
        yield "", text[:start]
        yield codes + text[start:end], text[end:] + after


def _between_marks(text: str) -> tuple[int, int]:
    """Returns the start and end of a sentence without the marks around it; elements stay whole."""
    # `_LEAD` matches at the beginning, and `_TAIL` at the end, if only the empty text.
    lead = next(_LEAD.finditer(text)).end()
    tail = next(run.start() for run in _TAIL.finditer(text, lead) if run.end() == len(text))
    start, end = lead, tail
    # An element with one tag in the sentence, and the other in its marks, belongs to the sentence.
    for _, opening, closing in elements(text):
        if opening.start() < lead <= closing.start() < tail:
            start = min(start, opening.start())
        if opening.start() >= start:
            end = max(end, closing.end())
    return start, end


def _gaps(text: str) -> list[re.Match[str]]:
    """Returns the gaps at which a text can be halved: after commas, else at white space.

    Gaps in kept parts do not count.
    """
    shown, start = masked(text), len(languages_in_front(text))
    return [*_COMMA_GAP.finditer(shown, start)] or [*_BLANK_GAP.finditer(shown, start)]


def _divide(text: str, translation: Translation) -> _Division:
    """Divides a text if its translation is bad, or may be; returns no parts, and 0, otherwise.

    A text is halved if its translation is truncated or repeats itself. It is also halved if much of
    it or a number is lost, or if it is long: the lengths of the halves' translations then decide.
    If the translation does not keep URLs and the like, the text is divided there.
    """
    target = translation.text
    is_bad = translation.truncated or without_cycles(target, text) != target
    codes = languages_in_front(text)
    parts_to_keep = kept(text.removeprefix(codes))
    is_broken = bool(parts_to_keep) and parts_to_keep != kept(target)
    gaps = _gaps(text) if is_bad or _is_doubtful(text, target) else []
    # Parts with the limit -1 are always used: no translation has fewer letters.
    if not gaps:
        return ([*_between_kept(text)], -1) if is_broken else ([], 0)
    start, end = gaps[len(gaps) // 2].span()
    halves = (text[len(codes) : start], text[start:end]), (text[end:], "")
    parts = [part for half in halves for part in _split_marks(half, codes)]
    # Halves of a good translation have to be longer by a ninth; those of a bad one are used.
    return parts, -1 if is_bad or is_broken else length_in_letters(target) / 0.9


def _is_doubtful(text: str, target: str) -> bool:
    """Returns whether a translation may have lost much: letters or a number, or of a long text."""
    letters, source_letters = length_in_letters(target), length_in_letters(text)
    has_lost_numbers = len(re.findall(r"\d+", text)) > len(re.findall(r"\d+", target))
    # 1.5: a third of the source's letters is lost.
    has_lost_much = source_letters > 40 and (source_letters > 1.5 * letters or has_lost_numbers)
    # Without letters it is not doubtful: its markup could not be placed (see `translate_marked`).
    return letters > 0 and (source_letters > 250 or has_lost_much)


def _used_parts(
    parts: Iterable[SentencePart], translations: _Translations, divisions: Mapping[str, _Division]
) -> Iterator[SentencePart]:
    """Replaces each part by its own parts where these are used (see `_Division`), recursively."""
    for text, after in parts:
        division, limit = divisions.get(text, ([], 0))
        smaller = [*_used_parts(division, translations, divisions)]
        letters = sum(length_in_letters(translations[part].text) for part, _ in smaller)
        # An undivided part stays: it has no smaller parts, and 0 letters do not exceed its limit 0.
        if letters <= limit:
            yield text, after
        else:
            # What follows the part follows the last of its own parts.
            last, after_last = smaller.pop()
            yield from [*smaller, (last, after_last + after)]


def _between_kept(text: str) -> Iterator[SentencePart]:
    """Splits a text into the texts between its kept parts, which are not translated.

    "See www.x.com now." has the texts "See" and "now"; others are empty, such as that before the
    blank after the address. Each text gets the codes in front of the whole one.
    """
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


def _without_additions(text: str, translation: Translation) -> Translation:
    """Returns a translation without cycles; without kept parts, if they differ from the text's."""
    source = text.removeprefix(languages_in_front(text))
    target = without_cycles(translation.text, text)
    if kept(target) != kept(source):
        # The source stays if nothing else is left.
        target = " ".join(masked(target, " ").split()) or source
    # Subword models that normalise Unicode have "..." in the place of "…".
    if "…" in source and "..." not in source:
        target = target.replace("...", "…")
    return translation._replace(text=target)


def _join(line: str, parts: Sequence[SentencePart], translations: _Translations) -> Translation:
    """Returns the translation of a line, from the translations of its parts.

    Its text is the line itself, without codes, if the translations have other kept parts.
    """
    used = [translations[text] for text, _ in parts]
    codes = languages_in_front(line)
    own_text = line.replace(codes, "", 1)
    joined = _joined_text(parts, translations, codes)
    return Translation(
        text=joined if kept(joined) == kept(own_text) else own_text,
        score=sum((translation.score for translation in used), 0.0),
        finished=all(translation.finished for translation in used),
        truncated=any(translation.truncated for translation in used),
    )


def _joined_text(parts: Sequence[SentencePart], translations: _Translations, codes: str) -> str:
    """Joins the translations of a line's parts, each with the text after it.

    Args:
        parts: the parts of the line.
        translations: the translation of each part.
        codes: those in front of each part, which its translation does not have.
    """
    # Each text and its translation, which is not empty; a blank stands before the first one.
    pieces = [(" ", " ")]
    for text, after in parts:
        source, target = text.removeprefix(codes), translations[text].text
        # A model ends a part as a sentence, but the text after the part has its own punctuation.
        if after.strip() and not source.endswith(".") and target.endswith((".", ",")):
            target = target[:-1]
        # The text after a part is its own translation. What is empty is left out.
        pieces += filter(all, ((source, target), (after, after)))
    blanks = [_blank(before, piece) for before, piece in pairwise(pieces)]
    return "".join(blank + target for blank, (_, target) in zip(blanks, pieces[1:], strict=True))


def _blank(before: tuple[str, str], piece: tuple[str, str]) -> str:
    """Returns a blank if only the language of the translations needs one between two pieces.

    There is none in "你好。再见。", but one in "Hello. Bye." Otherwise it returns "".

    Args:
        before: the text before the border, and its translation; neither is empty.
        piece: the text after it, likewise.
    """
    # The two characters beside the border.
    in_source, in_target = (left[-1] + right[0] for left, right in zip(before, piece, strict=True))
    # Chinese quotation marks are not signs, as other languages have them too.
    has_sign_in_source = re.search(f"{SIGN}|”“", in_source)
    return " " if has_sign_in_source and not re.search(rf"\s|{SIGN}", in_target) else ""
