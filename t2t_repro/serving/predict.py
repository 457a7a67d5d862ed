"""Reads and writes predictions in the JSON of TensorFlow Serving's REST interface.

Row form:     {"instances": [text or {name: text}, ...]}  -> {"predictions": [{name: value}, ...]}
Column form:  {"inputs": [text, ...] or {name: [text, ...]}}  -> {"outputs": {name: [value, ...]}}

"signature_name" is "serving_default" by default.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from t2t_repro.config.values import short

Columns = dict[str, list[Any]]
"""A list of values for each input or output, one value a row."""


class Request(NamedTuple):
    """A request for a prediction.

    Attributes:
        signature: its name.
        columns: the texts of each input.
        rows: the number of texts.
        in_rows: whether the answer is in row form.
    """

    signature: str
    columns: Columns
    rows: int
    in_rows: bool


class RequestError(Exception):
    """A request that is not answered.

    Args:
        status: of HTTP.
        message: one line: what was received, what was expected.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_request(body: bytes, signatures: Mapping[str, Collection[str]], max_rows: int) -> Request:
    """Reads a request.

    Args:
        body: JSON.
        signatures: the names of the inputs of each signature.
        max_rows: the most rows of a request.

    Raises:
        RequestError: 400, the body is not a request to one of the signatures.
    """
    document = read_json(body)
    if not isinstance(document, dict) or len({"instances", "inputs"} & document.keys()) != 1:
        raise _invalid(
            f"received {short(document)}, expected an object with either 'instances' or 'inputs'"
        )
    signature = document.get("signature_name", "serving_default")
    if not isinstance(signature, str) or signature not in signatures:
        raise _invalid(
            f"signature_name is {short(signature)}, expected one of {', '.join(signatures)}"
        )
    names, in_rows = signatures[signature], "instances" in document
    if in_rows:
        rows_of_names = [_by_name(one, names) for one in _list_of(document["instances"])]
        columns = {name: [row[name] for row in rows_of_names] for name in names}
    else:
        columns = _by_name(document["inputs"], names)
    for name, column in columns.items():
        for text in _list_of(column):
            check_text(name, text)
    counts = {name: len(column) for name, column in columns.items()}
    rows = max(counts.values())
    if min(counts.values()) != rows:
        raise _invalid(f"received {counts} values, expected the same number for all inputs")
    if rows > max_rows:
        raise _invalid(f"received {rows} rows, expected at most {max_rows}: send several requests")
    return Request(signature, columns, rows, in_rows)


def read_json(body: bytes) -> Any:
    """Reads a body.

    Raises:
        RequestError: 400, it is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"the body is not JSON: {error}") from error


def check_text(name: str, text: Any) -> None:
    """Checks that an input is a text that can be encoded.

    Raises:
        RequestError: 400, it is not.
    """
    try:
        # JSON can hold half a character: "\ud800".
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise _invalid(f"input {name} has {short(text)}, expected a text") from None


def write_answer(outputs: Columns, in_rows: bool) -> bytes:
    """Writes the answer to a request.

    Args:
        outputs: the values of each output.
        in_rows: whether in row form.
    """
    answer: dict[str, Any] = {"outputs": outputs}
    if in_rows:
        rows = zip(*outputs.values(), strict=True)
        answer = {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}
    return json.dumps(answer, ensure_ascii=False).encode()


def _by_name(given: Any, names: Collection[str]) -> dict[str, Any]:
    """Returns what is given for each input; what has no name is for the only input."""
    if not isinstance(given, dict) and len(names) == 1:
        given = dict.fromkeys(names, given)
    if not isinstance(given, dict) or given.keys() != set(names):
        raise _invalid(f"received {short(given)}, expected an object with {sorted(names)}")
    return given


def _list_of(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise _invalid(f"received {short(given)}, expected a list")
    return given


def _invalid(message: str) -> RequestError:
    return RequestError(400, message)
