"""TMX and XLIFF as streams of elements; how translations are written into XLIFF 1.2 and 2.0."""

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
"""Inline elements whose content is no text."""

_ATTRIBUTES = r"""(?:[^>"'/]|/(?!>)|"[^"]*"|'[^']*')*+"""
# Tags of well-formed XML; CDATA, comments, a CR that is no line break, and the like have no name.
_TAG = re.compile(rf"""(?sx)<!--.*?-->|<!\[CDATA\[(?P<data>.*?)\]\]>|<\?.*?\?>|&\#(?:0*13|x0*[dD]);
    |<!(?:"[^"]*"|'[^']*'|[^>"'])*+>
    |<(?P<end>/?)(?P<name>(?P<prefix>(?:[^\s/>:]+:)?)(?P<kind>[^\s/>]+)){_ATTRIBUTES}(?P<empty>/?)>""")
# A translator's program may lock units: m:locked="true", mq:locked="locked".
_STAYS = re.compile(
    r"""\s(?:translate|mtype|\w+:locked)\s*=\s*["'](?:(yes)|no|protected|true|locked)["']"""
)
_STATE = re.compile(
    r"""(?<!\s)\s++(?:state(?:-qualifier)?|subState)\s*=\s*(?:"([^"]*)"|'([^']*)')"""
)
# A sentence of a unit, with its number, which other marks lack.
_SEGMENT = re.compile(
    r"""(?sx)(?P<start><(?P<name>(?:[^\s/>:]+:)?mrk)\s[^>]*?\bmid\s*=\s*["'](?P<id>[^"']*)[^>]*?)
    (?:/>|>(?P<inside>(?:(?!<(?P=name)\s[^>]*?\bmid\s*=).)*)</(?P=name)\s*>)"""
)
_Ends = tuple[re.Match[str], re.Match[str]]
"""The first and last tag of an element: the same if it is empty."""

_UNSURE = re.compile("no$|new|initial|needs-")
"""Attributes of XLIFF's units that are not translated yet, or not for certain."""


def elements(path: Path) -> Iterator[tuple[str, Element]]:
    """Yields the elements of a file at their start and end.

    It yields as iterparse does.

    Raises:
        UserError: the file is not well-formed, or declares entities.
    """
    with opened(path, str(path), is_xml=True) as file:
        # Before the first element; null bytes are UTF-16's.
        start = file.read(2**16).replace(b"\0", b"")
        if re.match(rb"(?s)(?:<!--(?:.*?-->|.*+)|[^<]|<[!?](?!ENTITY))*+<!E", start):
            raise UserError(f"{path} declares entities, expected none: write their texts.")
        file.seek(0)
        try:
            is_utf8 = re.match(rb"""(?i)[^>]*?encoding\s*=\s*["']utf_?8["']""", start)
            parser = XMLParser(encoding="utf-8" if is_utf8 else None)
            yield from iterparse(file, ("start", "end"), parser)
        except (LookupError, ValueError, ParseError) as error:
            file.seek(0)
            line = next(islice(file, getattr(error, "position", [1])[0] - 1, None), b"")
            control = re.search(rb"[\1-\x08\x0b\x0c\x0e-\x1f]", line)
            reason = f"the control character 0x{control[0].hex()}; {error}" if control else error
            fix = "expected XML in UTF-8: correct that line, or convert the file (iconv)."
            raise UserError(f"{path}: {reason}; {fix}") from error


def _name(element: Element) -> str:
    """Returns an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def read_units(path: Path, languages: Sequence[str]) -> Iterator[Sides | str]:
    """Yields units of TMX or XLIFF, or why one is skipped.

    Memory does not grow.

    Args:
        path: of the file.
        languages: the languages of its two sides where XLIFF does not name them.

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
                source = get("srcLang") or get("source-language") or languages[0]
                languages = source, get("trgLang") or get("target-language") or languages[1]
            continue
        parents.pop()
        name = _name(element)
        if name == "tuv":
            code = element.get(_LANGUAGE) or element.get("lang") or "?"
            sides += [(code, "".join(x.itertext())) for x in element if x.tag.endswith("seg")]
        elif name == "tu":
            yield sides
            sides = []
        elif name in _CODES:
            # Not clear(): what follows the element may be read already.
            kind = element.get("ctype", element.get("subType", ""))
            element.text = " " if kind.endswith("lb") else ""
            del element[:]
        elif name in ("trans-unit", "segment"):
            own = {_name(side): side for side in [element, *element]}
            states = [element.get("approved", ""), *(x.get("state", "") for x in own.values())]
            texts = ["".join(own[x].itertext()) if x in own else "" for x in ("source", "target")]
            empty = (x.get("mid") and not any(x.itertext()) for x in own.get("target", ()))
            is_unsure = texts[1].strip() and any([*map(_UNSURE.match, states), *empty])
            yield "fuzzy" if is_unsure else [*zip(languages, texts, strict=False)]
        if name in _UNITS and parents:
            del parents[-1][:]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each unit without a target, or with its source as one that is new.

    Inline elements are in the texts: those that hold code, or must stay, as <1/>, others as the
    tags <g=2> and </g=3>.

    Raises:
        UserError: it is not XLIFF; see `elements`.
    """
    _, root = next(parsed := elements(path))
    if _name(root) != "xliff":
        raise UserError(f"{path} begins with <{_name(root)}>, expected <xliff>.")
    deque(parsed, 0)
    for unit, parts in _units(text):
        kinds = "source", "seg-source", "target"
        source, segments, old = (_inside(text, *parts.get(kind, ())) for kind in kinds)
        name, target = f"{unit['prefix']}target", parts.get("target")
        attributes = target[0][0].strip("</>").removeprefix(name) if target else ""
        states = map("".join, _STATE.findall(unit[0] + attributes))
        is_new = any(re.match("new|initial|needs-[alt]", state) for state in states)
        old = "" if is_new and old in (source, segments) else old
        inner = _segmented(segments, old, translate)
        if not _text(source) or (_text(old) and inner is None):
            continue
        inner = _translated(segments or source, translate) if inner is None else inner
        if not inner:
            yield []
            continue
        is_segment = unit["kind"] == "segment"
        state = "" if is_segment else ' state="needs-review-translation"'
        new = f"<{name}{_STATE.sub('', attributes).rstrip()}{state}>{inner}</{name}>"
        if target:
            edits = [(target[0].start(), target[1].end(), new)]
        else:
            after = (parts.get("seg-source") or parts["source"])[1].end()
            rest = text[unit.end() : after]
            edits = [(after, after, rest.removesuffix(rest.lstrip()) + new)]
        if is_segment:
            marked = f'{_STATE.sub("", unit[0][:-1])} state="initial" subState="t2t:needs-review"'
            edits.append((unit.start(), unit.end() - 1, marked))
        yield edits


def _units(text: str) -> Iterator[tuple[re.Match[str], dict[str, _Ends]]]:
    """Yields the first tag of each translatable unit, and its children.

    They are both tags of each child, by its kind. Those in another namespace are left out.
    """
    # Of each element around: its first tag, whether it may change, and its children.
    unclosed = list[tuple[re.Match[str], bool, dict[str, _Ends]]]()
    for tag in _TAG.finditer(text):
        if tag["name"] and not tag["end"]:
            unclosed.append((tag, _may_change(tag, not unclosed or unclosed[-1][1]), {}))
        if tag["end"] or tag["empty"]:
            first, may_change, parts = unclosed.pop()
            if unclosed and unclosed[-1][0]["prefix"] == first["prefix"]:
                unclosed[-1][2][first["kind"]] = first, tag
            if may_change and first["kind"] in ("trans-unit", "segment"):
                yield first, parts


def _may_change(tag: re.Match[str], default: bool = True) -> bool:
    """Returns whether an element may be translated."""
    return bool(mark[1]) if (mark := _STAYS.search(tag[0])) else default


def _inside(text: str, *ends: re.Match[str]) -> str:
    """Returns what is between two tags, CDATA as text; "" without tags."""
    inside = text[ends[0].end() : ends[1].start()] if ends else ""
    return _TAG.sub(lambda tag: escape(tag["data"], False) if tag["data"] else tag[0], inside)


def _text(inside: str) -> str:
    """Returns the text of the inside of an element."""
    return unescape(_TAG.sub("", inside)).strip()


def _segmented(source: str, target: str, translate: Translate) -> str | None:
    """Translates the sentences of a source that are empty in its target.

    Returns:
        the target's new inside; "" if a translation is broken or the target has no place for a
        sentence, None if no sentence is empty.
    """
    if not _SEGMENT.search(target):
        target = "" if _text(target) else _SEGMENT.sub(r"\g<start>/>", source)
    sources, edits = {one["id"]: one["inside"] or "" for one in _SEGMENT.finditer(source)}, []
    for one in _SEGMENT.finditer(target):
        if _text(text := sources.pop(one["id"], "")) and not _text(one["inside"] or ""):
            new = _translated(text, translate)
            edits.append((*one.span(), f"{one['start']}>{new}</{one['name']}>" if new else ""))
    # What is left has no place in the target.
    edits += [(0, 0, "") for text in sources.values() if _text(text)]
    is_whole = all(new for *_, new in edits)
    return None if not edits else filled(target, edits) if is_whole else ""


def _translated(source: str, translate: Translate) -> str:
    """Translates the inside of a source; "" if a tag is lost or doubled, or it is ill-formed."""
    raw, text, place, depth, stays = dict[str, str](), "", 0, 0, False
    for tag in _TAG.finditer(source):
        # An element that stays becomes one tag: it is 1 deep and more until its end. So does what
        # stands between sm and em, or the end of the segment.
        if not depth:
            text, place = text + unescape(source[place : tag.start()]), tag.start()
            stays = tag["kind"] in _CODES or not tag["name"] or not _may_change(tag)
        step = -1 if tag["end"] else 1 if tag["name"] and not tag["empty"] else 0
        depth += {"sm": 1, "em": -1}.get(tag["kind"], step) if stays else 0
        if not depth:
            kind = "" if stays else f"{tag['end']}{tag['name']}="
            name = f"<{kind}{len(raw)}{'/' if stays else tag['empty']}>"
            raw[name], text, place = source[place : tag.end()], text + name, tag.end()
    text += f"<{len(raw)}/>" if depth else unescape(source[place:])
    raw |= {f"<{len(raw)}/>": source[place:]} if depth else {}
    pieces = re.split("(<[^<>]*>)", translate(text))
    inner = "".join(raw.get(piece) or escape(piece, False) for piece in pieces)
    with suppress(ExpatError):
        ParserCreate().Parse(f"<x>{inner}</x>", True)
        return inner if sorted(piece for piece in pieces if piece in raw) == sorted(raw) else ""
    return ""
