"""TMX and XLIFF as streams of elements; how translations are written into XLIFF 1.2 and 2.0."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape, unescape
from itertools import islice
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse
from xml.parsers.expat import ExpatError, ParserCreate

from t2t_repro.data.line_files import opened
from t2t_repro.documents.edits import Edit, Sides, Translate
from t2t_repro.errors import UserError

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_UNITS = {"tu", "trans-unit", "segment", "unit", "group", "file"}
_CODES = {"bpt", "ept", "it", "ph", "ut", "x"}
"""Inline elements whose content is no text."""

_ATTRIBUTES = r"""(?:[^>"'/]|/(?!>)|"[^"]*"|'[^']*')*+"""
# Of a unit: notes, contexts and comments.
_NONE = r"<!--.*?-->|<!\[CDATA\[.*?\]\]>"
_ANY = rf"(?:{_NONE}|.)*?"
_OTHER = rf"(?:{_NONE}|(?!</?[\w.:-]*?(?:source|target|alt-trans|trans-unit|segment)\b).)*+"
_UNIT = re.compile(rf"""(?sx){_NONE}
    |(?P<unit><(?P<p>(?:[\w.-]+:)?)(?P<kind>trans-unit|segment)\b{_ATTRIBUTES})/?>
    (?:(?P<gap>\s*+){_OTHER}<(?P=p)source\b{_ATTRIBUTES}>
    (?P<source>{_ANY})</(?P=p)source>
    (?:\s*<(?P=p)seg-source\b{_ATTRIBUTES}>(?P<parts>{_ANY})</(?P=p)seg-source>)?(?:{_OTHER}(?P<target>
    <(?P=p)target\b(?P<attributes>{_ATTRIBUTES})(?:/>|>(?P<old>{_ANY})</(?P=p)target>)))?)?""")
_INLINE = re.compile(rf"""(?sx)<(?P<name>(?:[\w.-]+:)?(?:bpt|ept|it|ph|mrk
    (?=[^<>]*\s(?:translate\s*=\s*.no|mtype\s*=\s*.protected)\b)))\b{_ATTRIBUTES}>.*?</(?P=name)>
    |<!--.*?-->|<\?.*?\?>|<(?P<end>/?)(?P<tag>[\w.:-]+){_ATTRIBUTES}(?P<empty>/?)>""")
_STATE = re.compile(r"""\s+(?:state(?:-qualifier)?|subState)\s*=\s*["']([^"']*)["']""")
_UNSURE = re.compile("no$|new|initial|needs-")
"""Attributes of XLIFF's units that are not translated yet, or not for certain."""


def elements(path: Path) -> Iterator[tuple[str, Element]]:
    """Yields the elements of a file as iterparse does, at their start and at their end.

    Raises:
        UserError: it is not well-formed, or declares entities.
    """
    with opened(path, str(path), is_xml=True) as file:
        # Before the first element; null bytes are UTF-16's.
        start = file.read(2**16).replace(b"\0", b"")
        if re.match(rb"(?s)(?:<!--(?:.*?-->|.*+)|[^<]|<[!?](?!ENTITY))*+<!E", start):
            raise UserError(f"{path} declares entities, expected none: write their texts.")
        file.seek(0)
        try:
            yield from iterparse(file, ("start", "end"))
        except ParseError as error:
            file.seek(0)
            line = next(islice(file, error.position[0] - 1, None), b"")
            found = re.search(rb"[\1-\x08\x0b\x0c\x0e-\x1f]", line)
            reason = f"the control character 0x{found[0].hex()}; {error}" if found else error
            raise UserError(f"{path}: {reason}; expected XML: correct that line.") from error


def _name(element: Element) -> str:
    """Returns an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def read_units(path: Path, languages: Sequence[str]) -> Iterator[Sides | str]:
    """Yields the units of TMX or XLIFF, or why one is skipped; memory does not grow.

    Args:
        path: of the file.
        languages: those of its two sides where XLIFF does not name them.

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
            is_unsure = texts[1].strip() and any(map(_UNSURE.match, states))
            yield "fuzzy" if is_unsure else [*zip(languages, texts, strict=False)]
        if name in _UNITS and parents:
            del parents[-1][:]


def fill(path: Path, text: str, translate: Translate) -> Iterator[list[Edit]]:
    """Yields the edits of each unit without a target, or with its source as one that is new.

    Inline elements are in the texts: those that hold code, or must stay, as <1/>, others as the
    tags <g=2> and </g=3>.

    Raises:
        UserError: see `elements`.
    """
    *_, (_, root) = elements(path)
    for parent in root.iter():
        for child in parent:
            child.attrib.setdefault("translate", parent.get("translate", "yes"))
    own = [one for one in root.iter() if _name(one) in ("trans-unit", "segment")]
    for unit, element in zip([x for x in _UNIT.finditer(text) if x["unit"]], own, strict=True):
        is_segment = unit["kind"] == "segment"
        texts = {_name(x): "".join(x.itertext()).strip() for x in element}
        states = _STATE.findall(f"{unit['attributes']}{unit['unit']}")
        is_new = any(re.match("new|initial|needs-[alt]", state) for state in states)
        is_done = texts.get("target") and not (is_new and unit["old"] == unit["source"])
        if is_done or element.get("translate") == "no" or not (unit["source"] and texts["source"]):
            continue
        if not (inner := _translated(unit["parts"] or unit["source"], translate)):
            yield []
            continue
        name, attributes = f"{unit['p']}target", _STATE.sub("", unit["attributes"] or "").rstrip()
        state = "" if is_segment else ' state="needs-review-translation"'
        new = f"<{name}{attributes}{state}>{inner}</{name}>"
        place = unit.span("target") if unit["target"] else (unit.end(),) * 2
        edits = [(*place, new if unit["target"] else unit["gap"] + new)]
        if is_segment:
            marked = f'{_STATE.sub("", unit["unit"])} state="initial" subState="t2t:needs-review"'
            edits.append((*unit.span("unit"), marked))
        yield edits


def _translated(source: str, translate: Translate) -> str:
    """Translates the inside of a source; "" if a tag is lost or doubled, or it is ill-formed."""
    source = re.sub(r"(?s)<!\[CDATA\[(.*?)\]\]>", lambda data: escape(data[1], False), source)
    raw = dict[str, str]()
    for n, tag in enumerate(_INLINE.finditer(source)):
        name = f"{tag['end']}{tag['tag']}={n}{tag['empty']}" if tag["tag"] else f"{n}/"
        raw[f"<{name}>"] = tag[0]
    names = iter(raw)
    text = unescape(_INLINE.sub(lambda _: next(names), source))
    pieces = re.split("(<[^<>]*>)", translate(text))
    inner = "".join(raw.get(piece) or escape(piece, False) for piece in pieces)
    with suppress(ExpatError):
        ParserCreate().Parse(f"<x>{inner}</x>", True)
        return inner if sorted(piece for piece in pieces if piece in raw) == sorted(raw) else ""
    return ""
