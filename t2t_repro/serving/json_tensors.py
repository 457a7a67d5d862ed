"""Requests and answers as TensorFlow Serving writes them in JSON (json_tensor.cc).

Row form:     {"instances": [value or {name: value}, ...]} -> {"predictions": [...]}
Column form:  {"inputs": tensor or {name: tensor}}         -> {"outputs": ...}

A text that is no UTF-8 is {"b64": "..."}. "signature_name" is "serving_default" if left out.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.serving.loaded_model import Arrays, Signature, TensorSpec
from t2t_repro.serving.request_error import invalid

_SHOWN = 80
"""Characters of a value that a message repeats."""


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


def read_request(body: bytes, signature_of: Callable[[str], Signature]) -> JsonRequest:
    """Reads the body of a request.

    Args:
        body: JSON.
        signature_of: the signature of a name.

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
    inputs = {name: _array(name, columns[name], spec) for name, spec in signature.inputs.items()}
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


def _array(name: str, value: Any, spec: TensorSpec) -> NDArray:
    """The tensor that nested lists hold."""
    shape = _shape(value)
    leaves: list[Any] = []
    _collect(value, shape, leaves)
    dtype = np.dtype(spec.dtype.as_numpy_dtype)
    try:
        if spec.dtype == tf.string:
            flat = np.empty(len(leaves), object)
            flat[:] = [_bytes(leaf) for leaf in leaves]
        else:
            flat = np.array([_number(leaf, dtype) for leaf in leaves], dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid(f"input {name}: {error}, expected type: {spec.dtype.name}") from error
    return flat.reshape(shape)


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of nested lists, from the first of each."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _collect(value: Any, shape: tuple[int, ...], leaves: list[Any]) -> None:
    """Appends all values in nested lists of a shape."""
    if not shape and not isinstance(value, list):
        leaves.append(value)
        return
    if not shape or not isinstance(value, list) or len(value) != shape[0]:
        raise invalid(f"JSON Value: {_shown(value)} is not of the same shape as those before it")
    if len(shape) == 1 and not any(isinstance(item, list) for item in value):
        leaves.extend(value)
        return
    for item in value:
        _collect(item, shape[1:], leaves)


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
    flat = np.empty(array.size, object)
    if name.endswith("_bytes"):
        flat[:] = [{"b64": base64.b64encode(text).decode()} for text in array.flat]
    else:
        flat[:] = [text.decode("utf-8", errors="replace") for text in array.flat]
    return flat.reshape(array.shape).tolist()


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
