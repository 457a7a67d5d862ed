"""Reads the fields of a request: those of its URL, and JSON or a form, in UTF-8."""

import re
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from t2t_repro.config.values import short
from t2t_repro.errors import UserError, reason_of
from t2t_repro.serving.predict import read_json

_MOST_FIELDS = 1000


async def read_document(request: web.Request) -> dict[str, Any]:
    """Reads the fields of a request; one that a form or URL has several times is a list.

    As in LibreTranslate, a field of the URL counts more than that of a form, and less than JSON's.
    """
    body, content_type = await request.read(), request.headers.get("Content-Type", "")
    read_form = _FORMS.get(content_type.partition(";")[0].strip().lower())
    try:
        fields = read_form(body, content_type) if read_form else {}
        fields |= _read_fields(request.rel_url.raw_query_string.encode())
    except ValueError as error:
        raise UserError(f"no form or URL in UTF-8: {reason_of(error)}") from error
    document = {name: some[0] if len(some) == 1 else some for name, some in fields.items()}
    return document if read_form else document | read_json(body or b"{}")


def check_encodings(request: web.Request) -> None:
    """Refuses bodies that are compressed or not in UTF-8, before they are read.

    A small one can have gigabytes to inflate, and some of Python's codecs take quadratic time.
    """
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise web.HTTPUnsupportedMediaType(text="Content-Encoding: expected an uncompressed body")
    _check_charset(_parameter(request.headers.get("Content-Type", ""), "charset"))


def _check_charset(name: str) -> None:
    if not re.fullmatch("|utf[-_]?8|u8|(us-)?ascii", name.strip(), re.IGNORECASE):
        raise web.HTTPUnsupportedMediaType(text=f"the charset is {short(name)}, expected UTF-8")


def _parameter(header: str, name: str) -> str:
    """Returns a parameter of a header, "" if it has none.

    The headers of aiohttp and `email` decode one in the charset that it names, and take quadratic
    time.
    """
    found = re.search(rf"""[;\s]{name}\s*=\s*(?:"([^"\n]*)|([^;\s]*))""", header, re.IGNORECASE)
    return (found[1] or found[2] or "") if found else ""


def _read_fields(body: bytes, content_type: str = "") -> dict[str, list[str]]:
    text = body.rstrip().decode()
    fields = parse_qs(text, True, errors="strict", max_num_fields=_MOST_FIELDS)
    _check_charset(fields.get("_charset_", [""])[0])
    return fields


def _read_parts(body: bytes, content_type: str) -> dict[str, list[str]]:
    """Reads multipart/form-data."""
    boundary = "\r\n--" + _parameter(content_type, "boundary")
    _, *parts = f"\r\n{body.decode()}".split(boundary, _MOST_FIELDS + 2)
    if not parts or not parts.pop().startswith("--"):
        raise ValueError(f"no boundary at its end, or over {_MOST_FIELDS} parts")
    fields: dict[str, list[str]] = {}
    for part in parts:
        head, _, value = part.partition("\r\n\r\n")
        name = _parameter(head, "name")
        if not name or re.search("(?i)transfer-encoding:(?! *(7bit|8bit|binary))", head):
            raise ValueError("a part has no name, or a Content-Transfer-Encoding")
        _check_charset(value if name == "_charset_" else _parameter(head, "charset"))
        fields.setdefault(name, []).append(value)
    return fields


_FORMS = {"application/x-www-form-urlencoded": _read_fields, "multipart/form-data": _read_parts}
