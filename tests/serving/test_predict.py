"""Requests in both forms of JSON, and what is wrong with them."""

import json

import pytest

from t2t_repro.serving.predict import Columns, RequestError, read_request, write_answer

INPUTS = {"serving_default": ["source"], "score": ["source", "target"]}


def read(document, max_rows=4):
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_request(body, INPUTS, max_rows)


def test_both_forms_are_the_same_columns():
    for form in (
        {"inputs": ["a", "b"]},
        {"inputs": {"source": ["a", "b"]}},
        {"instances": ["a", "b"]},
        {"instances": [{"source": "a"}, "b"]},
    ):
        request = read(form)
        assert (request.signature, request.columns, request.rows) == (
            *("serving_default", {"source": ["a", "b"]}, 2),
        )
        assert request.in_rows == ("instances" in form)
    pairs = read({"signature_name": "score", "instances": [{"target": "b", "source": "a"}]})
    assert pairs.columns == {"source": ["a"], "target": ["b"]}


def test_answers_have_the_form_of_their_request():
    outputs: Columns = {"translation": ["ä", "b"], "score": [-1.5, 0.0]}
    assert json.loads(write_answer(outputs, False)) == {"outputs": outputs}
    rows = [{"translation": "ä", "score": -1.5}, {"translation": "b", "score": 0.0}]
    assert json.loads(write_answer(outputs, True)) == {"predictions": rows}


@pytest.mark.parametrize(
    "document",
    [
        b'{"inputs": ' + b"[" * 50_000,
        {"inputs": ["a"], "instances": ["a"]},
        {"inputs": ["a", 5]},
        {"instances": ["\ud800"]},
        {"instances": ["a"] * 5},
        {"signature_name": "unknown", "inputs": []},
        {"signature_name": "score", "inputs": {"source": ["a"], "target": []}},
    ],
    ids=lambda document: str(document)[:40],
)
def test_what_is_not_a_request_is_status_400(document):
    with pytest.raises(RequestError) as raised:
        read(document)
    assert raised.value.status == 400
