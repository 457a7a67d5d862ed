"""Requests in both forms of JSON, and which of them are translated together."""

import asyncio
import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.serving.predict import Answers, Columns, RequestQueue, read_request, write_answer
from tests.serving.conftest import Held

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
        assert read(form) == ("serving_default", {"source": ["a", "b"]}, "instances" in form)
    _, columns, _ = read({"signature_name": "score", "instances": [{"target": "b", "source": "a"}]})
    assert columns == {"source": ["a"], "target": ["b"]}


def test_answers_have_the_form_of_their_request():
    outputs: Columns = {"translation": ["ä", "b"], "score": [-1.5, 0.0]}
    assert json.loads(write_answer(outputs, False)) == {"outputs": outputs}
    rows = [{"translation": "ä", "score": -1.5}, {"translation": "b", "score": 0.0}]
    assert json.loads(write_answer(outputs, True)) == {"predictions": rows}
    assert '"ä"' in write_answer(outputs, True).decode()


@pytest.mark.parametrize(
    "document",
    [
        b'{"inputs": ' + b"[" * 50_000,
        {"inputs": ["a"], "instances": ["a"]},
        {"inputs": ["a", 5]},
        {"inputs": "a"},
        {"instances": "a"},
        {"instances": [{"source": "a", "prefix": "a"}]},
        {"instances": ["\ud800"]},
        {"instances": ["a"] * 5},
        {"signature_name": "unknown", "inputs": []},
        {"signature_name": "score", "inputs": {"source": ["a"], "target": []}},
    ],
    ids=lambda document: str(document)[:40],
)
def test_what_is_not_a_request_is_a_mistake(document):
    with pytest.raises(UserError):
        read(document)


@pytest.fixture
def functions(translator):
    return Answers(translator).signatures


@pytest.fixture
def held(functions):
    return Held(functions)


def asked(*texts):
    return "serving_default", {"source": list(texts)}


def run(functions, held, requests, first=1, cancelled=()):
    """Returns the outputs; the first requests are under way before the others arrive."""

    async def ask():
        queue = RequestQueue(functions, workers=1, max_rows=8)
        tasks = []
        for some in (requests[:first], requests[first:]):
            tasks += [asyncio.create_task(queue.answer(*request)) for request in some]
            await asyncio.sleep(0.01)
        for index in cancelled:
            tasks[index].cancel()
        held.may_go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(ask())


def test_joined_requests_get_what_they_get_alone(functions, held, translator):
    lines = ["the red bird", "a tree", "", "the river", "a blue house", "x", "stone"]
    outputs = run(functions, held, [asked(*lines[:2]), *(asked(line) for line in lines[2:])])
    assert held.calls == [lines[:2], lines[2:]]
    alone = [translator.translate([line])[0][0] for line in lines]
    texts = [text for output in outputs for text in output["translation"]]
    assert texts == [best.text for best in alone]
    assert len({*texts}) > 4
    scores = [score for output in outputs for score in output["score"]]
    assert scores == pytest.approx([best.score for best in alone], rel=1e-5)


def test_a_call_is_of_similar_lengths_and_has_a_limit(functions, held):
    long, longer = "a tree " * 30, "a tree " * 50
    requests = [["a"], ["b", "c"], [long], [*"ddddddd"], ["e"], [longer]]
    run(functions, held, [asked(*texts) for texts in requests])
    assert held.calls == [["a"], ["b", "c", "e"], [long, longer], [*"ddddddd"]]


def test_a_client_that_hung_up_is_not_computed_and_takes_nothing_from_others(functions, held):
    outputs = run(functions, held, [*map(asked, "abcd")], first=2, cancelled=[0, 2])
    is_cancelled = [isinstance(output, asyncio.CancelledError) for output in outputs]
    assert is_cancelled == [True, False] * 2
    assert held.calls == [["a", "b"], ["d"]]


def test_a_failed_call_does_not_stop_the_next(functions, held):
    failing = "score", {"source": ["a"], "target": ["a", "b"]}
    first, failed, last = run(functions, held, [asked("a"), failing, asked("b")])
    assert isinstance(failed, ValueError)
    assert (len(first["translation"]), len(last["translation"])) == (1, 1)
