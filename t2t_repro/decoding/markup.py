"""Markup inside a sentence: the words are translated without it, and it follows their alignment.

An element goes around the words of the translation that align with its own; an empty one goes
before the word that aligns with the next. So do tags in Firefox, but here an element stays one.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from t2t_repro.decoding.kept import TAG, WORDS, masked
from t2t_repro.decoding.repetition import SIGN
from t2t_repro.decoding.search import Translation

Align = Callable[[Sequence[str], Sequence[str]], Iterable[dict[int, int]]]
"""Returns of texts and their translations, for words of a translation, the source word that each
aligns with. White space splits words."""

# With its name, and the blanks before and after it.
_TAG = re.compile(rf"(?ia)(?=</?([\w.:-]+))(?:(?<=(\s)))?{TAG}(?=(\s?))")
EMPTY = re.compile("(?i)area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
_WORD = re.compile(r"\S+")

# Elements of a sentence, and words of one: time grows with the square of these.
_MOST = 100


def translate_marked(
    texts: Sequence[str], translate: Callable[..., Iterable[Translation]], align: Align | None
) -> list[Translation]:
    """Translates sentences without their markup, and puts it into the translations.

    Args:
        texts: sentences with markup.
        translate: returns a translation of each text.
        align: if there is none, they are translated with their markup.

    Returns:
        a translation of each; one without text if its markup cannot be placed.
    """
    lifted = [lift(text) if align else (text, {}) for text in texts]
    results = [*translate([plain for plain, _ in lifted])]
    marked = [n for n, (_, cuts) in enumerate(lifted) if cuts and not results[n].truncated]
    sources, targets = [lifted[n][0] for n in marked], [results[n].text for n in marked]
    for n, links in zip(marked, align(sources, targets) if align and marked else (), strict=True):
        results[n] = results[n]._replace(text=lower(texts[n], results[n].text, links))
    for n, text in enumerate(texts):
        tags, others = ([tag[0] for tag in _TAG.finditer(one)] for one in (text, results[n].text))
        # In another order they may be ill-formed.
        if tags and tags != others and not lifted[n][1]:
            results[n] = results[n]._replace(text="")
    return results


def elements(text: str) -> list[tuple[int, re.Match[str], re.Match[str]]]:
    """Returns the elements of a text.

    Each has the number of the element around it, or -1, and its two tags. An empty tag is there
    twice. Returns none of an ill-formed text, or of one with too many.
    """
    pairs, unclosed = list[tuple[int, re.Match[str], re.Match[str]]](), [-1]
    for tag in _TAG.finditer(text):
        if tag[0][1] == "/":
            number = unclosed.pop()
            if number < 0 or pairs[number][1][1] != tag[1]:
                return []
            pairs[number] = (*pairs[number][:2], tag)
        else:
            pairs.append((unclosed[-1], tag, tag))
            # HTML's own has attributes.
            if not tag[0].endswith("/>") and (tag[0] == "<link>" or not EMPTY.fullmatch(tag[1])):
                unclosed.append(len(pairs) - 1)
    return pairs if len(unclosed) == 1 and len(pairs) < _MOST else []


def lift(text: str) -> tuple[str, dict[int, int]]:
    """Takes the markup out of a text.

    Ill-formed markup, and markup that cuts a word, stays.

    Returns:
        the text without markup; and by each tag's place in `text`, its place there.
    """
    bare = _TAG.sub("\0", text)
    # The parts that tags cut each word into, but those of punctuation alone.
    split_words = (filter(WORDS.search, word.split("\0")) for word in bare.split())
    if "\0" in text or not elements(text) or any(len([*parts]) > 1 for parts in split_words):
        return text, {}
    plain, *pieces = bare.split("\0")
    cuts: dict[int, int] = {}
    for piece, tag in zip(pieces, _TAG.finditer(text), strict=True):
        cuts[tag.start()] = len(plain)
        # No blank at the beginning, and none after a blank.
        plain += piece if plain[-1:].strip() else piece.lstrip()
    return plain, cuts


def _best_run(own: Sequence[int]) -> tuple[int, int]:
    """Returns the first and last word of a run with most words of `own` and fewest others.

    Among equal ones the longest, and of these the first.

    Args:
        own: the numbers of words, ascending.
    """
    runs = ((i, a, j, b) for i, a in enumerate(own) for j, b in enumerate(own[i:], i))
    *_, first, last = max((2 * (j - i) - b + a, b - a, -a, a, b) for i, a, j, b in runs)
    return first, last


def lower(text: str, target: str, links: dict[int, int]) -> str:
    """Puts the markup of a text into the translation of the rest.

    Args:
        text: a text with its markup.
        target: the translation of the text without markup.
        links: alignment of the two; "" is returned if no word of `target` aligns with those of an
            element.
    """
    plain, cuts = lift(text)
    source, words = ([one.span() for one in _WORD.finditer(side)] for side in (plain, target))
    spans_of = dict(enumerate(source))
    aligned = [spans_of.get(links.get(n, -1), (-1, -1)) for n in range(len(words))]
    shown = masked(target)
    owners, spans = [-1] * len(words), {-1: (0, len(target))}
    # Place, order among those at this place, text.
    tags: list[tuple[int, tuple[int, int], str]] = []
    for number, (parent, opening, closing) in enumerate(elements(text)):
        start, end = cuts[opening.start()], cuts[closing.start()]
        if not plain[start:end].strip():
            later = [(low, n) for n, (low, _) in enumerate(aligned) if low >= start]
            place = words[min(later)[1]][0] if later else len(target.rstrip(" .!?:"))
            # Codes that end something are empty, too: they touch the word before.
            is_end = later and closing[3] and plain[start - 1 : start].strip() and place
            place = len(target[:place].rstrip()) if is_end else place
            for tag in {opening, closing}:
                both = tag[0] + ("" if is_end else tag[3]) if later else (tag[2] or "") + tag[0]
                tags.append((place, (1, tag.start()), both))
            continue
        own = [n for n, (low, high) in enumerate(aligned) if low < end and high > start]
        if not 0 < len(own) < _MOST or re.search(SIGN, target):
            return ""
        first, last = _best_run(own)
        # Punctuation at its ends belongs to it as in the source.
        inside, around = masked(plain)[start:end].strip(), (words[first][0], words[last][1])
        core = match.span() if (match := WORDS.search(shown, *around)) else around
        low = max(spans[parent][0], (core if WORDS.match(inside) else around)[0])
        high = min(spans[parent][1], (core if WORDS.match(inside[-1]) else around)[1])
        if low >= high or {*owners[first : last + 1]} != {parent}:
            return ""
        spans[number], owners[first : last + 1] = (low, high), [number] * (last + 1 - first)
        tags += [(low, (1, opening.start()), opening[0]), (high, (0, -number), closing[0])]
    marked, done = "", 0
    for place, _, tag_text in sorted(tags):
        marked, done = marked + target[done:place] + tag_text, place
    return marked + target[done:]
