"""Reads TMX and XLIFF as streams of elements, and writes translations into XLIFF 1.2 and 2.0."""

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import islice
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, XMLParser, iterparse
from xml.parsers.expat import ExpatError, ParserCreate

from t2t_repro.data.line_files import opened
from t2t_repro.documents.edits import Edit, Sides, Translate, filled
from t2t_repro.errors import UserError

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Inline elements whose content is not text.
_CODES = {"bpt", "ept", "it", "ph", "ut", "x"}

# Tags of well-formed XML. CDATA, comments, a CR written as a number, and the like have no name.
_TAG = re.compile(r"""(?sx)<!--.*?-->|<!\[CDATA\[(?P<data>.*?)\]\]>|<\?.*?\?>|&\#(?:0*13|x0*[dD]);
    |<!(?:"[^"]*"|'[^']*'|[^>"'])*+>
    |<(?P<end>/?)(?P<name>(?P<prefix>(?:[^\s/>:]+:)?)(?P<kind>[^\s/>]+))
      (?P<attributes>(?:[^>"'/]|/(?!>)|"[^"]*"|'[^']*')*+)(?P<empty>/?)>""")
# A translator's program may lock units: m:locked="true", mq:locked="locked".
_SETTING = re.compile(r"""(?x)\s(?:translate|mtype|\w+:locked)
    \s*=\s*["'](?:(yes)|no|protected|true|locked)["']""")
_STATE = re.compile(r"""(?x)(?<!\s)\s++(?:state(?:-qualifier)?|subState)
    \s*=\s*(?:"([^"]*)"|'([^']*)')""")
# The mark of a sentence: a number (mid) tells it from other marks.
_SEGMENT = re.compile(r"""(?sx)
    (?P<start><(?P<name>(?:[^\s/>:]+:)?mrk)\s[^>]*?\bmid\s*=\s*["'](?P<id>[^"']*)[^>]*?)
    (?:/>|>(?P<inside>(?:(?!<(?P=name)\s[^>]*?\bmid\s*=).)*)</(?P=name)\s*>)""")
# Values of `approved` and `state` of units that are not translated yet, or not for certain.
_UNSURE = re.compile("no$|new|initial|needs-")

# The start and end tags of a unit's children, such as its source; twice the same if one is empty.
_Parts = dict[str, tuple[re.Match[str], re.Match[str]]]


def elements(path: Path) -> Iterator[tuple[str, Element]]:
    """Yields "start" or "end" with each element of a file, as `iterparse` does.

    Raises:
        UserError: the file cannot be read, is not well-formed, or declares entities, which can make
            a small file huge.
    """
    with opened(path, str(path), is_xml=True) as file:
        # Entities are declared before the first element. Null bytes are UTF-16's.
        start = file.read(2**16).replace(b"\0", b"")
        if re.match(rb"(?s)(?:<!--(?:.*?-->|.*+)|[^<]|<[!?](?!ENTITY))*+<!E", start):
            raise UserError(f"{path} declares entities, expected none: write their texts.")
        file.seek(0)
        try:
            # Expat does not know the names utf8 and utf_8, and would read single bytes.
            is_utf8 = re.match(rb"""(?i)[^>]*?encoding\s*=\s*["']utf_?8["']""", start)
            parser = XMLParser(encoding="utf-8" if is_utf8 else None)
            yield from iterparse(file, ("start", "end"), parser)
        except (LookupError, ValueError, ParseError) as error:
            # The position of a ParseError is line and column; other errors have none. Expat's
            # message does not say that a control character is the reason, so the line is read.
            file.seek(0)
            line = next(islice(file, getattr(error, "position", [1])[0] - 1, None), b"")
            control = re.search(rb"[\1-\x08\x0b\x0c\x0e-\x1f]", line)
            reason = f"control character 0x{control[0].hex()}; {error}" if control else error
            fix = "expected XML in UTF-8: correct that line, or convert the file (iconv)."
            raise UserError(f"{path}: {reason}; {fix}") from error


def _name(element: Element) -> str:
    """Returns an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def _content(element: Element | None) -> str:
    """Returns the text of an element and of all elements in it; "" without an element."""
    return "" if element is None else "".join(element.itertext())


def read_units(path: Path, languages: Sequence[str]) -> Iterator[Sides | str]:
    """Yields the sides of each unit of TMX or XLIFF, or "fuzzy" if its translation is not certain.

    A side is a language's code and a text, which may be empty; the code is "?" if TMX has none.
    `languages` are those of source and target, if XLIFF does not name them. Elements are deleted
    once they are read, so memory does not grow.

    Raises:
        UserError: see `elements`.
    """
    parents: list[Element] = []
    sides: Sides = []
    for event, element in elements(path):
        if event == "start":
            parents.append(element)
            if element.tag.endswith(("xliff", "file")):
                # XLIFF 2.0 names them in its root, 1.2 in each file.
                source = element.get("srcLang") or element.get("source-language") or languages[0]
                target = element.get("trgLang") or element.get("target-language") or languages[1]
                languages = source, target
            continue
        parents.pop()
        name = _name(element)
        if name == "tuv":
            code = element.get(_LANGUAGE) or element.get("lang") or "?"
            sides += [(code, _content(child)) for child in element if child.tag.endswith("seg")]
        elif name == "tu":
            yield sides
            sides = []
        elif name in _CODES:
            # Not clear(): the text after the element may be read already. "lb" is a line break.
            kind = element.get("ctype", element.get("subType", ""))
            element.text = " " if kind.endswith("lb") else ""
            del element[:]
        elif name in ("trans-unit", "segment"):
            yield _sides(element, languages)
        if parents and name in {"tu", "trans-unit", "segment", "unit", "group", "file"}:
            del parents[-1][:]


def _sides(unit: Element, languages: Sequence[str]) -> Sides | str:
    """Returns the sides of a unit of XLIFF, or "fuzzy" if its translation is not certain."""
    # The unit itself is among the elements: it may have a state, too.
    named = {_name(element): element for element in [unit, *unit]}
    source, target = _content(named.get("source")), _content(named.get("target"))
    states = [unit.get("approved", ""), *(element.get("state", "") for element in named.values())]
    # The marks of sentences, of which one may be empty.
    marks = [mark for mark in named.get("target", ()) if mark.get("mid")]
    is_unsure = any(map(_UNSURE.match, states)) or not all(map(_content, marks))
    if target.strip() and is_unsure:
        return "fuzzy"
    return [(languages[0], source), (languages[1], target)]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each unit without a translation: they add a target to be reviewed.

    A target that is the source, and is marked as new, is not a translation. In the texts for
    `translate`, an inline element that holds code, or must stay, is one tag with a number, <1/>;
    the tags of another are <g=2> and </g=3>. The list is empty if a translation is broken.

    Raises:
        UserError: the file is not XLIFF; see `elements`.
    """
    _, root = next(events := elements(path))
    if _name(root) != "xliff":
        raise UserError(f"{path} begins with <{_name(root)}>, expected <xliff>.")
    for _ in events:
        pass  # The rest is read only to check that it is well-formed.
    for unit, parts in _units(text):
        inside = _new_inside(text, unit, parts, translate)
        if inside is not None:
            yield _target_edits(text, unit, parts, inside) if inside else []


def _new_inside(text: str, unit: re.Match[str], parts: _Parts, translate: Translate) -> str | None:
    """Returns the new inside of a unit's target.

    Returns "" if a translation is broken; None if the unit stays, since it has nothing to translate
    or is translated already.
    """
    source = _inside(text, parts, "source")
    segments = _inside(text, parts, "seg-source")
    target = _inside(text, parts, "target")
    target_tag = parts["target"][0][0] if "target" in parts else ""
    # The value is in double or in single quotes, so one group is "". The states a, l and t are
    # needs-adaptation, needs-l10n and needs-translation, not needs-review-translation.
    states = map("".join, _STATE.findall(unit[0] + target_tag))
    is_new = any(re.match("new|initial|needs-[alt]", state) for state in states)
    if is_new and target in (source, segments):
        target = ""
    inside = _filled_segments(segments, target, translate)
    # No text at all, or a target without an empty sentence.
    if not _text(source) or (_text(target) and inside is None):
        return None
    return _translated(segments or source, translate) if inside is None else inside


def _target_edits(text: str, unit: re.Match[str], parts: _Parts, inside: str) -> list[Edit]:
    """Returns the edits that write the target of a unit, with the state that asks for a review.

    They replace the target, or add one behind the source, and set the state.
    """
    # XLIFF 2.0 has the state in the segment, 1.2 in the target.
    is_segment = unit["kind"] == "segment"
    state = "" if is_segment else ' state="needs-review-translation"'
    attributes = parts["target"][0]["attributes"] if "target" in parts else ""
    name = f"{unit['prefix']}target"
    target = f"<{name}{_STATE.sub('', attributes).rstrip()}{state}>{inside}</{name}>"
    if "target" in parts:
        start, end = parts["target"]
        edits = [(start.start(), end.end(), target)]
    else:
        _, source_end = parts.get("seg-source") or parts["source"]
        # The white space between the unit's start tag and its first child goes before the target.
        before = text[unit.end() : source_end.end()]
        indent = before.removesuffix(before.lstrip())
        edits = [(source_end.end(), source_end.end(), indent + target)]
    if is_segment:
        marked = f'{_STATE.sub("", unit[0][:-1])} state="initial" subState="t2t:needs-review"'
        edits.append((unit.start(), unit.end() - 1, marked))
    return edits


def _units(text: str) -> Iterator[tuple[re.Match[str], _Parts]]:
    """Yields the start tag of each translatable unit, and the tags of its children, by name.

    A unit comes once its end tag is read, with the start and end tag of each child, such as
    {"source": (<source>, </source>)}. Children in another namespace are left out.
    """
    # Of each open element: its start tag, whether it is translatable, and its children.
    unclosed = list[tuple[re.Match[str], bool, _Parts]]()
    for tag in _TAG.finditer(text):
        if tag["name"] and not tag["end"]:
            _, inherited, _ = unclosed[-1] if unclosed else (tag, True, {})
            unclosed.append((tag, _is_translatable(tag, inherited), {}))
        if tag["end"] or tag["empty"]:
            start, is_translatable, children = unclosed.pop()
            # The root is its own parent.
            parent, _, siblings = unclosed[-1] if unclosed else (start, True, {})
            if parent["prefix"] == start["prefix"]:
                siblings[start["kind"]] = start, tag
            if is_translatable and start["kind"] in ("trans-unit", "segment"):
                yield start, children


def _is_translatable(tag: re.Match[str], default: bool = True) -> bool:
    """Returns whether a start tag's attributes allow a translation; without any, the default."""
    # Group 1 is the "yes" of translate="yes"; all other settings forbid it.
    return default if (setting := _SETTING.search(tag[0])) is None else bool(setting[1])


def _inside(text: str, parts: _Parts, kind: str) -> str:
    """Returns the XML in a unit's child, with CDATA as escaped text; "" without such a child."""
    tags = parts.get(kind)
    # An empty element's start tag is its end tag, too: then the slice is empty.
    inside = text[tags[0].end() : tags[1].start()] if tags else ""
    return _TAG.sub(lambda tag: escape(tag["data"], quote=False) if tag["data"] else tag[0], inside)


def _text(inside: str) -> str:
    """Returns the stripped text of an element's inside: without tags, with entities decoded."""
    return unescape(_TAG.sub("", inside)).strip()


def _filled_segments(source: str, target: str, translate: Translate) -> str | None:
    """Translates the sentences of a source that are empty in its target.

    Returns:
        the target's new inside; "" if a translation is broken or the target lacks the mark of a
        sentence, None if no sentence is empty.
    """
    # An empty target gets the marks of the source; one with text but no marks lacks all of them.
    if not _SEGMENT.search(target):
        target = "" if _text(target) else _SEGMENT.sub(r"\g<start>/>", source)
    sentences = {mark["id"]: mark["inside"] or "" for mark in _SEGMENT.finditer(source)}
    edits: list[Edit] = []
    is_broken = False
    for mark in _SEGMENT.finditer(target):
        sentence = sentences.pop(mark["id"], "")
        if _text(sentence) and not _text(mark["inside"] or ""):
            # Also after a broken one: the first call of `fill` collects all texts.
            new = _translated(sentence, translate)
            is_broken = is_broken or not new
            edits.append((*mark.span(), f"{mark['start']}>{new}</{mark['name']}>"))
    # The sentences that are left have no mark in the target.
    if is_broken or any(_text(sentence) for sentence in sentences.values()):
        return ""
    return filled(target, edits) if edits else None


def _translated(source: str, translate: Translate) -> str:
    """Returns the translation of the inside of a source, as XML.

    Returns "" if it has lost or doubled a tag, or is not well-formed, as where tags cross.
    """
    text, xml_of = _with_numbers(source)
    pieces = re.split("(<[^<>]*>)", translate(text))
    inside = "".join(xml_of.get(piece) or escape(piece, quote=False) for piece in pieces)
    try:
        # Well-formed XML has one element around all.
        ParserCreate().Parse(f"<x>{inside}</x>", True)
    except ExpatError:
        return ""
    return inside if sorted(tag for tag in pieces if tag in xml_of) == sorted(xml_of) else ""


def _with_numbers(source: str) -> tuple[str, dict[str, str]]:
    """Returns the text to translate, with numbered tags, and the XML of each such tag.

    `A <ph id="1">%d</ph> dog` gives `A <0/> dog` and {"<0/>": '<ph id="1">%d</ph>'} (see `fill`).
    """
    # `done` is the end of the part of the source that `text` already has.
    text, xml_of, done = "", dict[str, str](), 0
    for number, (start, end, tag) in enumerate(_inline_parts(source)):
        name = f"<{tag['end']}{tag['name']}={number}{tag['empty']}>" if tag else f"<{number}/>"
        text += unescape(source[done:start]) + name
        xml_of[name] = source[start:end]
        done = end
    return text + unescape(source[done:]), xml_of


def _inline_parts(source: str) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """Yields start, end and match of each tag of a source.

    An element that stays comes as a whole: from its start to its end, with None as the match.
    """
    # An element that stays is 1 deep and more until its end. So is what stands between sm and em,
    # which are empty elements, or between sm and the end of the source.
    depth, start, stays = 0, 0, False
    for tag in _TAG.finditer(source):
        if not depth:
            start = tag.start()
            stays = tag["kind"] in _CODES or not tag["name"] or not _is_translatable(tag)
        if stays:
            # Comments, which have no name, and empty elements other than sm and em add nothing.
            is_start = bool(tag["name"]) and not tag["end"] and not tag["empty"]
            step = -1 if tag["end"] else int(is_start)
            depth += {"sm": 1, "em": -1}.get(tag["kind"], step)
        if not depth:
            yield start, tag.end(), None if stays else tag
    if depth:
        yield start, len(source), None
