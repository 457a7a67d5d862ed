"""Reads TMX and XLIFF as streams of elements, and writes translations into XLIFF 1.2 and 2.0."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape, unescape
from itertools import islice
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, XMLParser, iterparse
from xml.parsers.expat import ExpatError, ParserCreate

from t2t_repro.data.line_files import opened
from t2t_repro.documents.edits import Edit, Sides, Translate, filled
from t2t_repro.errors import UserError

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_UNITS = {"tu", "trans-unit", "segment", "unit", "group", "file"}
_CODES = {"bpt", "ept", "it", "ph", "ut", "x"}
"""Inline elements whose content is not text."""

_ATTRIBUTES = r"""(?:[^>"'/]|/(?!>)|"[^"]*"|'[^']*')*+"""
# Tags of well-formed XML. CDATA, comments, a CR written as a number, and the like have no name.
_TAG = re.compile(rf"""(?sx)<!--.*?-->|<!\[CDATA\[(?P<data>.*?)\]\]>|<\?.*?\?>|&\#(?:0*13|x0*[dD]);
    |<!(?:"[^"]*"|'[^']*'|[^>"'])*+>
    |<(?P<end>/?)(?P<name>(?P<prefix>(?:[^\s/>:]+:)?)(?P<kind>[^\s/>]+)){_ATTRIBUTES}(?P<empty>/?)>""")
# A translator's program may lock units: m:locked="true", mq:locked="locked".
_SETTING = re.compile(
    r"""\s(?:translate|mtype|\w+:locked)\s*=\s*["'](?:(yes)|no|protected|true|locked)["']"""
)
_STATE = re.compile(
    r"""(?<!\s)\s++(?:state(?:-qualifier)?|subState)\s*=\s*(?:"([^"]*)"|'([^']*)')"""
)
# The mark of a sentence: a number (mid) tells it from other marks.
_SEGMENT = re.compile(
    r"""(?sx)(?P<start><(?P<name>(?:[^\s/>:]+:)?mrk)\s[^>]*?\bmid\s*=\s*["'](?P<id>[^"']*)[^>]*?)
    (?:/>|>(?P<inside>(?:(?!<(?P=name)\s[^>]*?\bmid\s*=).)*)</(?P=name)\s*>)"""
)
_Ends = tuple[re.Match[str], re.Match[str]]
"""The start and end tag of an element; twice the same if it is empty."""

_UNSURE = re.compile("no$|new|initial|needs-")
"""Values of `approved` and `state` of units that are not translated yet, or not for certain."""


def elements(path: Path) -> Iterator[tuple[str, Element]]:
    """Yields "start" or "end" with each element of a file, as `iterparse` does.

    Raises:
        UserError: the file is not well-formed, or declares entities.
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
            file.seek(0)
            # The position of a ParseError is line and column; other errors have none.
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

    A text may be empty. `languages` are those of source and target, if XLIFF does not name them.
    Elements are deleted once they are read, so memory does not grow.

    Raises:
        UserError: see `elements`.
    """
    parents: list[Element] = []
    sides: Sides = []
    for event, element in elements(path):
        if event == "start":
            parents.append(element)
            if element.tag.endswith(("xliff", "file")):
                get = element.get
                source_code = get("srcLang") or get("source-language") or languages[0]
                languages = source_code, get("trgLang") or get("target-language") or languages[1]
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
            # The unit itself is among its parts: it may have a state, too.
            parts = {_name(part): part for part in [element, *element]}
            states = [element.get("approved", ""), *(p.get("state", "") for p in parts.values())]
            source, target = _content(parts.get("source")), _content(parts.get("target"))
            # One sentence of the target may be empty.
            marks = (mark for mark in parts.get("target", ()) if mark.get("mid"))
            is_unsure = any(map(_UNSURE.match, states)) or not all(map(_content, marks))
            texts = [(languages[0], source), (languages[1], target)]
            yield "fuzzy" if target.strip() and is_unsure else texts
        if name in _UNITS and parents:
            del parents[-1][:]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each unit without a translation: they add a target to be reviewed.

    A target that is the source, and is marked as new, is not a translation. In the texts for
    `translate`, an inline element that holds code, or must stay, is one tag with a number, <1/>;
    the tags of another are <g=2> and </g=3>.

    Raises:
        UserError: the file is not XLIFF; see `elements`.
    """
    _, root = next(events := elements(path))
    if _name(root) != "xliff":
        raise UserError(f"{path} begins with <{_name(root)}>, expected <xliff>.")
    # The rest is read only to check that it is well-formed.
    deque(events, maxlen=0)
    for unit, parts in _units(text):
        kinds = "source", "seg-source", "target"
        source, segments, old = (_inside(text, *parts.get(kind, ())) for kind in kinds)
        name = f"{unit['prefix']}target"
        target = parts.get("target")
        attributes = target[0][0].strip("</>").removeprefix(name) if target else ""
        # The value is in double or in single quotes, so one group is "". The states a, l and t are
        # needs-adaptation, needs-l10n and needs-translation, not needs-review-translation.
        states = map("".join, _STATE.findall(unit[0] + attributes))
        is_new = any(re.match("new|initial|needs-[alt]", state) for state in states)
        old = "" if is_new and old in (source, segments) else old
        inside = _filled_segments(segments, old, translate)
        if not _text(source) or (_text(old) and inside is None):
            continue
        inside = _translated(segments or source, translate) if inside is None else inside
        if not inside:
            yield []
            continue
        # XLIFF 2.0 has the state in the segment, 1.2 in the target.
        is_segment = unit["kind"] == "segment"
        state = "" if is_segment else ' state="needs-review-translation"'
        new = f"<{name}{_STATE.sub('', attributes).rstrip()}{state}>{inside}</{name}>"
        if target:
            edits = [(target[0].start(), target[1].end(), new)]
        else:
            _, source_end = parts.get("seg-source") or parts["source"]
            # The white space before the source goes before the target, too.
            before = text[unit.end() : source_end.end()]
            indent = before.removesuffix(before.lstrip())
            edits = [(source_end.end(), source_end.end(), indent + new)]
        if is_segment:
            marked = f'{_STATE.sub("", unit[0][:-1])} state="initial" subState="t2t:needs-review"'
            edits.append((unit.start(), unit.end() - 1, marked))
        yield edits


def _units(text: str) -> Iterator[tuple[re.Match[str], dict[str, _Ends]]]:
    """Yields the start tag of each translatable unit, and its children's tags, by name.

    Children in another namespace are left out.
    """
    # Of each open element: its start tag, whether it is translatable, and its children.
    unclosed = list[tuple[re.Match[str], bool, dict[str, _Ends]]]()
    for tag in _TAG.finditer(text):
        if tag["name"] and not tag["end"]:
            _, inherited, _ = unclosed[-1] if unclosed else (tag, True, {})
            unclosed.append((tag, _is_translatable(tag, inherited), {}))
        if tag["end"] or tag["empty"]:
            start, is_translatable, children = unclosed.pop()
            parent, _, siblings = unclosed[-1] if unclosed else (start, True, {})
            if parent["prefix"] == start["prefix"]:
                siblings[start["kind"]] = start, tag
            if is_translatable and start["kind"] in ("trans-unit", "segment"):
                yield start, children


def _is_translatable(tag: re.Match[str], default: bool = True) -> bool:
    """Returns whether a start tag's attributes allow a translation; without any, the default."""
    return default if (setting := _SETTING.search(tag[0])) is None else bool(setting[1])


def _inside(text: str, *ends: re.Match[str]) -> str:
    """Returns the XML of `text` between two tags, with CDATA as escaped text; "" without tags."""
    inside = text[ends[0].end() : ends[1].start()] if ends else ""
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
    sources = {mark["id"]: mark["inside"] or "" for mark in _SEGMENT.finditer(source)}
    edits: list[Edit] = []
    for mark in _SEGMENT.finditer(target):
        sentence = sources.pop(mark["id"], "")
        if _text(sentence) and not _text(mark["inside"] or ""):
            new = _translated(sentence, translate)
            edits.append((*mark.span(), f"{mark['start']}>{new}</{mark['name']}>" if new else ""))
    # The sentences that are left have no mark in the target.
    if any(_text(sentence) for sentence in sources.values()) or not all(new for *_, new in edits):
        return ""
    return filled(target, edits) if edits else None


def _translated(source: str, translate: Translate) -> str:
    """Translates the inside of a source; "" if a tag is lost or doubled, or it is ill-formed."""
    # `xml_of` has the XML of each tag in `text`; `done` is the end of the source's part in `text`.
    xml_of, text, done, depth, stays = dict[str, str](), "", 0, 0, False
    for tag in _TAG.finditer(source):
        # An element that stays becomes one tag: it is 1 deep and more until its end. So does what
        # stands between sm and em, or the end of the segment.
        if not depth:
            text, done = text + unescape(source[done : tag.start()]), tag.start()
            stays = tag["kind"] in _CODES or not tag["name"] or not _is_translatable(tag)
        step = -1 if tag["end"] else 1 if tag["name"] and not tag["empty"] else 0
        depth += {"sm": 1, "em": -1}.get(tag["kind"], step) if stays else 0
        if not depth:
            prefix = "" if stays else f"{tag['end']}{tag['name']}="
            name = f"<{prefix}{len(xml_of)}{'/' if stays else tag['empty']}>"
            xml_of[name], text, done = source[done : tag.end()], text + name, tag.end()
    rest, name = source[done:], f"<{len(xml_of)}/>"
    text += name if depth else unescape(rest)
    xml_of |= {name: rest} if depth else {}
    pieces = re.split("(<[^<>]*>)", translate(text))
    inside = "".join(xml_of.get(piece) or escape(piece, quote=False) for piece in pieces)
    with suppress(ExpatError):
        # Is it well-formed? XML needs one element around it.
        ParserCreate().Parse(f"<x>{inside}</x>", True)
        return inside if sorted(tag for tag in pieces if tag in xml_of) == sorted(xml_of) else ""
    return ""
