"""Joined = alone: what requests get, and which of them are translated together."""

import asyncio

import pytest

from t2t_repro.serving.answers import Answers
from t2t_repro.serving.predict import Request
from t2t_repro.serving.request_queue import RequestQueue
from tests.serving.conftest import Held


@pytest.fixture
def answers(translator):
    return Answers(translator)


@pytest.fixture
def held(answers):
    return Held(answers)


def asked(*texts):
    return Request("serving_default", {"source": list(texts)}, len(texts), False)


def run(answers, held, requests, cancelled=()):
    """Returns the outputs; the first request is under way before the others arrive."""

    async def ask():
        queue = RequestQueue(answers.signatures, workers=1, max_rows=8)
        tasks = [asyncio.create_task(queue.answer(requests[0]))]
        await asyncio.sleep(0.01)
        tasks += [asyncio.create_task(queue.answer(request)) for request in requests[1:]]
        await asyncio.sleep(0.01)
        for index in cancelled:
            tasks[index].cancel()
        held.may_go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(ask())


def test_joined_requests_get_what_they_get_alone(answers, held, translator):
    lines = ["the red bird", "a tree", "", "the river", "a blue house", "x", "stone"]
    outputs = run(answers, held, [asked(*lines[:2]), *(asked(line) for line in lines[2:])])
    assert held.calls == [lines[:2], lines[2:]]
    alone = [translator.translate([line])[0][0] for line in lines]
    texts = [text for output in outputs for text in output["translation"]]
    assert texts == [best.text for best in alone]
    assert len({*texts}) > 4
    scores = [score for output in outputs for score in output["score"]]
    assert scores == pytest.approx([best.score for best in alone], rel=1e-5)


def test_a_call_is_of_similar_lengths_and_has_a_limit(answers, held):
    long, longer = "a tree " * 30, "a tree " * 50
    requests = [["a"], ["b", "c"], [long], [*"ddddddd"], ["e"], [longer]]
    run(answers, held, [asked(*texts) for texts in requests])
    assert held.calls == [["a"], ["b", "c", "e"], [long, longer], [*"ddddddd"]]


def test_a_client_that_hung_up_is_not_computed(answers, held):
    outputs = run(answers, held, [asked("a"), asked("b"), asked("c")], cancelled=[1])
    assert isinstance(outputs[1], asyncio.CancelledError)
    assert held.calls == [["a"], ["c"]]


def test_a_failed_call_does_not_stop_the_next(answers, held):
    failing = Request("score", {"source": ["a"], "target": ["a", "b"]}, 1, False)
    first, failed, last = run(answers, held, [asked("a"), failing, asked("b")])
    assert isinstance(failed, ValueError)
    assert (len(first["translation"]), len(last["translation"])) == (1, 1)
