"""Markup inside a sentence: the words are translated without it, and it follows their alignment.

An element is put around the words of the translation that align with its own words. An empty
element is put before the word that aligns with the word after it. Firefox does the same, but may
split an element into several.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from t2t_repro.decoding.kept import TAG, WORDS, masked
from t2t_repro.decoding.repetition import SIGN
from t2t_repro.decoding.search import Translation

Translate = Callable[[Sequence[str]], Iterable[Translation]]
Align = Callable[[Sequence[str], Sequence[str]], Iterable[dict[int, int]]]
"""(texts, translations) -> for each pair, index of a translation's word -> index of the text's word
that it aligns with. White space separates words."""

# Group 1 is the tag's name; 2 and 3 are the white space before and after it.
_TAG = re.compile(rf"(?ia)(?=</?([\w.:-]+))(?:(?<=(\s)))?{TAG}(?=(\s?))")
EMPTY = re.compile("(?i)area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
_WORD = re.compile(r"\S+")

# Limits the elements of a sentence, and the aligned words of one: time grows with their square.
_MOST = 100

# A tag in the translation: its position, its order among those at this position, its text.
_PlacedTag = tuple[int, tuple[int, int], str]


def translate_marked(
    texts: Sequence[str], translate: Translate, align: Align | None
) -> list[Translation]:
    """Translates sentences without their markup, and puts it into the translations.

    Args:
        texts: sentences with markup.
        translate: returns a translation of each text.
        align: aligns texts with translations; if None, texts are translated with their markup.

    Returns:
        a translation of each; one without text if its markup cannot be placed.
    """
    plain = [take_out_markup(text)[0] if align else text for text in texts]
    results = [*translate(plain)]
    # Indices of the texts whose markup was taken out and has to be put back.
    lifted = [n for n, text in enumerate(texts) if text != plain[n] and not results[n].truncated]
    if align and lifted:
        all_links = align([plain[n] for n in lifted], [results[n].text for n in lifted])
        for n, links in zip(lifted, all_links, strict=True):
            results[n] = results[n]._replace(text=insert_markup(texts[n], results[n].text, links))
    for n, text in enumerate(texts):
        # Tags that were translated with the text: they have to be the same ones, in their order.
        tags = [tag[0] for tag in _TAG.finditer(text)] if text == plain[n] else []
        if tags and tags != [tag[0] for tag in _TAG.finditer(results[n].text)]:
            results[n] = results[n]._replace(text="")
    return results


def elements(text: str) -> list[tuple[int, re.Match[str], re.Match[str]]]:
    """Returns the elements of a text, in the order of their first tags.

    Each has the index of the element around it, or -1, its opening and its closing tag. An empty
    element has its only tag twice. "<b>a<br/></b>" has (-1, <b>, </b>) and (0, <br/>, <br/>). A
    text that is ill-formed or has too many elements has none.
    """
    found: list[tuple[int, re.Match[str], re.Match[str]]] = []
    # The indices of the open elements, the innermost last; -1 for outside of all.
    unclosed = [-1]
    for tag in _TAG.finditer(text):
        if tag[0].startswith("</"):
            index = unclosed.pop()
            # No element is open, or the innermost one has another name.
            if index < 0 or found[index][1][1] != tag[1]:
                return []
            found[index] = (*found[index][:2], tag)
        else:
            found.append((unclosed[-1], tag, tag))
            # HTML's empty <link> has attributes; without them it is an element of another format.
            if not tag[0].endswith("/>") and (tag[0] == "<link>" or not EMPTY.fullmatch(tag[1])):
                unclosed.append(len(found) - 1)
    return found if len(unclosed) == 1 and len(found) < _MOST else []


def take_out_markup(text: str) -> tuple[str, dict[int, int]]:
    """Takes the markup out of a text, unless it is ill-formed or cuts a word.

    Returns:
        the text without markup; and the position in it for each tag, by the tag's position in
        `text`: "a c" and {2: 2, 6: 3} for "a <b>c</b>". If the markup stays: `text`, and no
        positions.
    """
    # NUL marks the places of tags.
    bare = _TAG.sub("\0", text)
    # The parts into which tags cut each word, except punctuation.
    word_parts = (filter(WORDS.search, word.split("\0")) for word in bare.split())
    if "\0" in text or not elements(text) or any(len([*parts]) > 1 for parts in word_parts):
        return text, {}
    plain, *pieces = bare.split("\0")
    cuts: dict[int, int] = {}
    for piece, tag in zip(pieces, _TAG.finditer(text), strict=True):
        cuts[tag.start()] = len(plain)
        # No white space at the beginning, and none after white space.
        plain += piece if plain[-1:].strip() else piece.lstrip()
    return plain, cuts


def _best_run(own: Sequence[int]) -> tuple[int, int]:
    """Finds the run of words with the most words of `own`, less its other words.

    Returns its first and its last word: (0, 2) for [0, 1, 2, 6]. Of equal runs it is the longest,
    and of these the first.

    Args:
        own: indices of words, at least one, ascending.
    """
    # Of each run: the words of `own`, and all words, after its first one; its first and last word.
    runs = ((j - i, b - a, a, b) for i, a in enumerate(own) for j, b in enumerate(own[i:], i))
    # The words of `own`, less the others, are twice the words of `own` less all words.
    # Longer runs are better among equals; of these `max` returns the first.
    _, _, first, last = max(runs, key=lambda run: (2 * run[0] - run[1], run[1]))
    return first, last


def insert_markup(text: str, target: str, links: dict[int, int]) -> str:
    """Puts the markup of a text into the translation of the text without it.

    Args:
        text: a text with markup that `take_out_markup` takes out.
        target: the translation of the text without markup.
        links: index of a word of `target` -> index of the source word that it aligns with.

    Returns:
        `target` with the markup; "" if an element cannot be placed: no word or too many words align
        with its words, the words that do are not inside of its parent alone, or `target` has signs
        of a script without blanks.
    """
    plain, cuts = take_out_markup(text)
    words = [word.span() for word in _WORD.finditer(target)]
    source_words = dict(enumerate(word.span() for word in _WORD.finditer(plain)))
    # By word of `target`, the span of the source word that it aligns with; (-1, -1) if with none.
    aligned = [source_words.get(links.get(n, -1), (-1, -1)) for n in range(len(words))]
    shown, shown_target = masked(plain), masked(target)
    # The number of the innermost element of each word of `target`, and the span of each element in
    # `target`; -1: no element.
    owners, spans = [-1] * len(words), {-1: (0, len(target))}
    tags: list[_PlacedTag] = []
    for number, (parent, opening, closing) in enumerate(elements(text)):
        start, end = cuts[opening.start()], cuts[closing.start()]
        if not plain[start:end].strip():
            # Where each later source word starts, and where a word starts that aligns with it. The
            # first of them is the next word.
            later = [(low, words[n][0]) for n, (low, _) in enumerate(aligned) if low >= start]
            _, next_word = min(later, default=(start, None))
            ends_word = bool(closing[3] and plain[start - 1 : start].strip())
            tags += _place_empty({opening, closing}, target, next_word, ends_word)
            continue
        # The words of `target` that align with the element's words.
        own = [n for n, (low, high) in enumerate(aligned) if low < end and high > start]
        if not 0 < len(own) < _MOST or re.search(SIGN, target):
            return ""
        first, last = _best_run(own)
        run = words[first][0], words[last][1]
        low, high = _content_span(shown[start:end].strip(), shown_target, run)
        low, high = max(low, spans[parent][0]), min(high, spans[parent][1])
        # Its words must be the parent's, and not be in another element of the parent.
        if low >= high or {*owners[first : last + 1]} != {parent}:
            return ""
        spans[number] = low, high
        owners[first : last + 1] = [number] * (last + 1 - first)
        # At the same position: closing tags first, inner ones before outer ones.
        tags += [(low, (1, opening.start()), opening[0]), (high, (0, -number), closing[0])]
    # The last tag first, so that the positions of the others stay valid.
    for position, _, tag in sorted(tags, reverse=True):
        target = target[:position] + tag + target[position:]
    return target


def _content_span(content: str, target: str, run: tuple[int, int]) -> tuple[int, int]:
    """Returns the span of a run, without punctuation at the ends where the content has none.

    Of the run "(B)." it is the span of "B" for the content "b", and of "(B)" for "(b)".

    Args:
        content: the text of an element, `masked`; not empty, and without blanks at its ends.
        target: the translation, `masked`.
        run: the start and the end of the run in `target`.
    """
    inner = WORDS.search(target, *run)
    start = inner.start() if inner and WORDS.match(content) else run[0]
    end = inner.end() if inner and WORDS.match(content[-1]) else run[1]
    return start, end


def _place_empty(
    tags: set[re.Match[str]], target: str, next_word: int | None, ends_word: bool
) -> list[_PlacedTag]:
    """Places an empty element before the word that aligns with the word after it.

    Args:
        tags: its opening and closing tag; they are one if it has only one tag.
        target: the translation without markup.
        next_word: where that word of `target` starts; None if there is none.
        ends_word: whether the element stands between a word and white space.
    """
    if next_word is None:
        # At the end, before a full stop.
        position = len(target.rstrip(" .!?:"))
        return [(position, (1, tag.start()), (tag[2] or "") + tag[0]) for tag in tags]
    if ends_word and next_word > 0:
        # Between a word and white space it belongs to what ends there, as a line break does.
        position = len(target[:next_word].rstrip())
        return [(position, (1, tag.start()), tag[0]) for tag in tags]
    # With the white space that `take_out_markup` took out.
    return [(next_word, (1, tag.start()), tag[0] + tag[3]) for tag in tags]
