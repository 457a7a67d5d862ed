"""How requests are read from JSON, whatever it holds; `test_server` has the ordinary mistakes."""

from contextlib import suppress

import pytest
import tensorflow as tf

from t2t_repro.serving.predict import read_request
from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.signature import RequestLimits
from tests.formats.saved_model.signatures import signature_of

ONE = signature_of(text=(tf.string, 1))
TWO = signature_of(text=(tf.string, 1), ids=(tf.int32, 2))
LIMITS = RequestLimits(rows=4, bytes=100)
FORMS = [
    b"%s",
    b'{"inputs": %s}',
    b'{"instances": %s}',
    b'{"instances": [%s]}',
    b'{"instances": ["a", %s]}',
    b'{"instances": [{"text": %s}]}',
    b'{"instances": [{"text": "a", "ids": %s}]}',
    b'{"instances": ["a", {"b64": %s}]}',
    b'{"inputs": {"text": ["a"], "ids": %s}}',
    b'{"signature_name": %s, "inputs": []}',
]


def read(body, signature=ONE):
    return read_request(body, lambda name: signature, LIMITS)


@pytest.mark.parametrize("depth", [1, 2, 9, 32, 64, 65, 300, 900, 960, 975, 990, 5000])
def test_brackets_are_read_or_refused(depth):
    """Those that are just not too deep for the reader, too."""
    for leaf in (b"", b"1", b'"a"', b"{}", b'{"b64": "?"}', b"[], []", b'"a", "b"'):
        nested = b"[" * depth + leaf + b"]" * depth
        for form in FORMS:
            for signature in (ONE, TWO):
                with suppress(RequestError):
                    read(form % nested, signature)


def test_what_a_body_becomes_is_limited():
    with pytest.raises(RequestError, match="Task size 5 is larger"):
        read(b'{"inputs": ["", "", "", "", ""]}')
    ids = b'{"inputs": {"text": [""], "ids": [[' + b"1," * 25 + b"1]]}}"
    with pytest.raises(RequestError, match="input ids becomes 104 bytes, expected 100 at most"):
        read(ids, TWO)


def test_nested_lists_become_an_array():
    body = b'{"inputs": {"text": ["a", {"b64": "/w=="}], "ids": [[1, -2], [3, 2147483647]]}}'
    inputs = read(body, TWO).inputs
    assert inputs["text"].tolist() == [b"a", b"\xff"]
    assert inputs["ids"].tolist() == [[1, -2], [3, 2**31 - 1]]
    assert inputs["ids"].dtype == "int32"
    assert read(b'{"inputs": []}').inputs["text"].shape == (0,)
    assert read(b'{"inputs": {"text": [""], "ids": [[]]}}', TWO).inputs["ids"].shape == (1, 0)
