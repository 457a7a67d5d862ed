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
    lifted = [take_out_markup(text) if align else (text, {}) for text in texts]
    results = [*translate([plain for plain, _ in lifted])]
    marked = [n for n, (_, cuts) in enumerate(lifted) if cuts and not results[n].truncated]
    sources, targets = [lifted[n][0] for n in marked], [results[n].text for n in marked]
    all_links = align(sources, targets) if align and marked else ()
    for n, links in zip(marked, all_links, strict=True):
        results[n] = results[n]._replace(text=insert_markup(texts[n], results[n].text, links))
    for n, text in enumerate(texts):
        tags = [tag[0] for tag in _TAG.finditer(text)]
        translated_tags = [tag[0] for tag in _TAG.finditer(results[n].text)]
        # Tags that were translated with the text may be ill-formed if they changed.
        if tags and tags != translated_tags and not lifted[n][1]:
            results[n] = results[n]._replace(text="")
    return results


def elements(text: str) -> list[tuple[int, re.Match[str], re.Match[str]]]:
    """Returns the elements of a text, in the order of their first tags.

    Each has the index of the element around it, or -1, its opening and its closing tag. An empty
    element has its only tag twice. "<b>a<br/></b>" has (-1, <b>, </b>) and (0, <br/>, <br/>). A
    text that is ill-formed or has too many elements has none.
    """
    found: list[tuple[int, re.Match[str], re.Match[str]]] = []
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
    """Returns the first and last word of the run with the most words of `own`, less other words.

    Of [0, 1, 2, 6] it is 0 to 2. Of equal runs it is the longest, and of these the first.

    Args:
        own: indices of words, at least one, ascending.
    """
    # Words a to b, where a is own[i] and b is own[j].
    runs = ((i, a, j, b) for i, a in enumerate(own) for j, b in enumerate(own[i:], i))
    # j - i + 1 words of `own`, less the others, are 2·(j - i) - (b - a) + 1.
    *_, first, last = max((2 * (j - i) - (b - a), b - a, -a, a, b) for i, a, j, b in runs)
    return first, last


def insert_markup(text: str, target: str, links: dict[int, int]) -> str:
    """Puts the markup of a text into the translation of the text without it.

    Args:
        text: a text with markup that `take_out_markup` takes out.
        target: the translation of the text without markup.
        links: index of a word of `target` -> index of the source word that it aligns with.

    Returns:
        `target` with the markup; "" if there is an element that it cannot be put around, e.g. as no
        word aligns with the element's words.
    """
    plain, cuts = take_out_markup(text)
    source, words = ([word.span() for word in _WORD.finditer(side)] for side in (plain, target))
    span_of = dict(enumerate(source))
    # By word of `target`, the span of the source word that it aligns with.
    aligned = [span_of.get(links.get(n, -1), (-1, -1)) for n in range(len(words))]
    shown = masked(target)
    # The innermost element of each word of `target`, and the span of each element; -1: no element.
    owners, spans = [-1] * len(words), {-1: (0, len(target))}
    # Position, order among those at this position, text.
    tags: list[tuple[int, tuple[int, int], str]] = []
    for number, (parent, opening, closing) in enumerate(elements(text)):
        start, end = cuts[opening.start()], cuts[closing.start()]
        if not plain[start:end].strip():
            # An empty element: before the word of `target` that aligns with the next source word;
            # if there is none, at the end, before a full stop.
            later = [(low, n) for n, (low, _) in enumerate(aligned) if low >= start]
            position = words[min(later)[1]][0] if later else len(target.rstrip(" .!?:"))
            # Directly after a word, and before white space, it belongs to what ends there: it goes
            # after the word in front of this position.
            is_end = later and closing[3] and plain[start - 1 : start].strip() and position
            position = len(target[:position].rstrip()) if is_end else position
            for tag in {opening, closing}:  # One tag if they are the same.
                # With the white space that `take_out_markup` took out.
                after = "" if is_end else tag[3]
                with_blank = tag[0] + after if later else (tag[2] or "") + tag[0]
                tags.append((position, (1, tag.start()), with_blank))
            continue
        own = [n for n, (low, high) in enumerate(aligned) if low < end and high > start]
        if not 0 < len(own) < _MOST or re.search(SIGN, target):
            return ""
        first, last = _best_run(own)
        # Punctuation at the ends is inside of the element where the source has it inside.
        content, run = masked(plain)[start:end].strip(), (words[first][0], words[last][1])
        core = match.span() if (match := WORDS.search(shown, *run)) else run
        low = max(spans[parent][0], (core if WORDS.match(content) else run)[0])
        high = min(spans[parent][1], (core if WORDS.match(content[-1]) else run)[1])
        if low >= high or {*owners[first : last + 1]} != {parent}:
            return ""
        spans[number], owners[first : last + 1] = (low, high), [number] * (last + 1 - first)
        # At the same position: closing tags first, inner ones before outer ones.
        tags += [(low, (1, opening.start()), opening[0]), (high, (0, -number), closing[0])]
    marked, done = "", 0
    for position, _, tag_text in sorted(tags):
        marked, done = marked + target[done:position] + tag_text, position
    return marked + target[done:]
