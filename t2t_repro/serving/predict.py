"""Requests and answers as TensorFlow Serving writes them in JSON (json_tensor.cc).

Row form:     {"instances": [value or {name: value}, ...]} -> {"predictions": [...]}
Column form:  {"inputs": tensor or {name: tensor}}         -> {"outputs": ...}

A text that is no UTF-8 is {"b64": "..."}. "signature_name" is "serving_default" if left out.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.serving.request_error import invalid
from t2t_repro.serving.signature import Arrays, RequestLimits, Signature, TensorSpec

_SHOWN = 80
"""Characters of a value that a message repeats."""

_MOST_AXES = 8
"""Signatures have one or two; a deeper list is not looked into."""


class JsonRequest(NamedTuple):
    """A request for a prediction.

    Attributes:
        signature: which function is asked for.
        inputs: its inputs.
        in_rows: whether the answer is to be in row form.
    """

    signature: Signature
    inputs: Arrays
    in_rows: bool


def read_request(
    body: bytes, signature_of: Callable[[str], Signature], limits: RequestLimits
) -> JsonRequest:
    """Reads the body of a request.

    Args:
        body: JSON.
        signature_of: the signature of a name.
        limits: of what it becomes.

    Raises:
        RequestError: it is no JSON, not of one of the forms, or not what the signature takes.
    """
    try:
        document = json.loads(body)
    # Bytes that are no UTF-8 and numbers of 5,000 digits are ValueErrors too.
    except (ValueError, RecursionError) as error:
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {_shown(document)} Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid("'signature_name' key must be a string value")
    forms = {"instances", "inputs"} & document.keys()
    if len(forms) != 1:
        raise invalid("expecting exactly one of the keys 'inputs' and 'instances'")
    signature = signature_of(name)
    in_rows = "instances" in document
    read = _from_rows if in_rows else _from_columns
    columns = read(document[forms.pop()], signature.inputs)
    inputs = {
        name: _array(name, columns[name], spec, limits) for name, spec in signature.inputs.items()
    }
    return JsonRequest(signature, inputs, in_rows)


def write_answer(outputs: Arrays, in_rows: bool) -> dict[str, Any]:
    """The answer, in the form of its request.

    Args:
        outputs: by name.
        in_rows: whether in row form.
    """
    columns = {name: _values(name, array) for name, array in outputs.items()}
    alone = next(iter(columns.values())) if len(columns) == 1 else None
    if not in_rows:
        return {"outputs": alone if alone is not None else columns}
    if alone is not None:
        return {"predictions": alone}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def _from_rows(rows: Any, inputs: Mapping[str, TensorSpec]) -> dict[str, list]:
    if not isinstance(rows, list) or not rows:
        raise invalid("Expecting 'instances' to be a list with one element at least")
    if _is_object(rows[0]):
        for number, row in enumerate(rows):
            if not _is_object(row) or row.keys() != inputs.keys():
                raise invalid(
                    f"Failed to process element: {number} of 'instances' list. {_shown(row)} "
                    f"must be an object with the keys {', '.join(sorted(inputs))}"
                )
        return {name: [row[name] for row in rows] for name in inputs}
    if len(inputs) > 1:
        raise invalid(
            "instances is a plain list, but expecting objects with the keys "
            f"{', '.join(sorted(inputs))}"
        )
    return dict.fromkeys(inputs, rows)


def _from_columns(columns: Any, inputs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    if not _is_object(columns):
        if len(inputs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object with the keys "
                f"{', '.join(sorted(inputs))}"
            )
        return dict.fromkeys(inputs, columns)
    if columns.keys() != inputs.keys():
        raise invalid(f"'inputs' has the keys {_shown(sorted(columns))}, expected {sorted(inputs)}")
    return columns


def _is_object(value: Any) -> bool:
    """Whether it is an object, and not one that stands for bytes."""
    return isinstance(value, dict) and value.keys() != {"b64"}


def _array(name: str, value: Any, spec: TensorSpec, limits: RequestLimits) -> NDArray:
    """The tensor that nested lists hold."""
    shape = _first_shape(value)
    if len(shape) > _MOST_AXES:
        raise invalid(f"input {name} has {len(shape)} axes or more, expected {len(spec.shape)}")
    spec.check_shape(name, shape)
    limits.check(name, shape[0], spec.number_bytes(shape))
    values = [value]
    for size in shape:
        for inner in values:
            if not isinstance(inner, list) or len(inner) != size:
                raise invalid(
                    f"JSON Value: {_shown(inner)} is not of the same shape as those beside it"
                )
        values = list(chain.from_iterable(values))
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    try:
        read = [_bytes(one) if spec.is_text else _number(one, dtype) for one in values]
        return np.array(read, dtype).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid(f"input {name}: {error}, expected type: {spec.dtype.name}") from error


def _first_shape(value: Any) -> list[int]:
    """The shape of nested lists, as the first of each says; not of more than they may be deep."""
    shape: list[int] = []
    while isinstance(value, list) and len(shape) <= _MOST_AXES:
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")  # not so half of a surrogate pair: a ValueError
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"Unable to base64 decode: {error}") from error
    raise TypeError(f"JSON Value: {_shown(value)}")


def _number(value: Any, dtype: np.dtype) -> Any:
    kinds: dict[str, type | tuple[type, ...]] = {"b": bool, "f": (int, float)}
    # True is an int to Python.
    if not isinstance(value, kinds.get(dtype.kind, int)) or (
        isinstance(value, bool) and dtype.kind != "b"
    ):
        raise TypeError(f"JSON Value: {_shown(value)}")
    return value


def _values(name: str, array: NDArray) -> Any:
    """Nested lists of what JSON can hold; bytes where the name says that they are no text."""
    if array.dtype == np.float32:
        # With the digits that a float32 needs, not those of a float64.
        return array.astype(str).astype(float).tolist()
    if array.dtype != object:
        return array.tolist()
    write = _as_base64 if name.endswith("_bytes") else _as_text
    return np.vectorize(write, otypes=[object])(array).tolist()


def _as_base64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def _as_text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


def _shown(value: Any) -> str:
    try:
        shown = json.dumps(value)
    # It was just deep enough to be read.
    except RecursionError:
        return "a list of lists"
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
