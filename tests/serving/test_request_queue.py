"""Which requests are computed together, with a function in the model's place."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_repro.serving.request_queue import RequestQueue


class Upper:
    """A signature that answers in capitals, and remembers what it was asked together.

    Attributes:
        calls: the texts of every call.
        may_go: calls wait for it.
    """

    def __init__(self, is_joinable=True):
        self.is_joinable = is_joinable
        self.calls: list[list[str]] = []
        self.may_go = threading.Event()

    def rows(self, inputs):
        return len(inputs["text"])

    def __call__(self, inputs: Mapping[str, Any], cancellation):
        assert self.may_go.wait(60)
        texts = [text.decode() for text in inputs["text"]]
        self.calls.append(texts)
        if "fail" in texts:
            raise ValueError("failed")
        return {"upper": np.array([text.upper() for text in texts], object)}


def texts(*words):
    array = np.empty(len(words), object)
    array[:] = [word.encode() for word in words]
    return {"text": array}


def run(upper, requests, *, workers=1, max_rows=8, cancel=()):
    """What every request gets; the first is under way before the others come."""

    async def ask():
        queue = RequestQueue(workers, max_rows)
        tasks = [asyncio.create_task(queue.answer(upper, texts(*requests[0])))]
        await asyncio.sleep(0.01)
        tasks += [asyncio.create_task(queue.answer(upper, texts(*r))) for r in requests[1:]]
        await asyncio.sleep(0.01)
        for number in cancel:
            tasks[number].cancel()
        upper.may_go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return [f["upper"].tolist() if isinstance(f, dict) else f for f in found]

    return asyncio.run(ask())


def test_what_waits_is_joined_and_everyone_gets_his_own():
    upper = Upper()
    found = run(upper, [["a"], ["b", "c"], ["d"], ["e"] * 6, ["f"]])
    assert found == [["A"], ["B", "C"], ["D"], ["E"] * 6, ["F"]]
    # Eight rows at most, the oldest first; a smaller one may overtake.
    assert upper.calls == [["a"], ["b", "c", "d", "f"], ["e"] * 6]


def test_a_long_sentence_keeps_no_short_ones_waiting():
    upper = Upper()
    run(upper, [["a"], ["b"], ["long " * 99], ["c"], ["longer" * 99]])
    assert upper.calls == [["a"], ["b", "c"], ["long " * 99, "longer" * 99]]


def test_what_would_change_its_looks_is_computed_alone():
    upper = Upper(is_joinable=False)
    assert run(upper, [["a"], ["b"], ["c"]]) == [["A"], ["B"], ["C"]]
    assert upper.calls == [["a"], ["b"], ["c"]]


def test_two_workers_share_what_waits():
    upper = Upper()
    run(upper, [["a"], *[[word] for word in "bcdefgh"]], workers=2)
    # The second worker takes the rest while the first is at the first.
    assert sorted(map(len, upper.calls)) == [1, 7]

    async def at_once():
        queue: Any = RequestQueue(2, 8)
        await asyncio.gather(*(queue.answer(upper, texts(word)) for word in "bcdefg"))

    upper.calls.clear()
    asyncio.run(at_once())
    assert sorted(map(len, upper.calls)) == [3, 3]


def test_a_client_that_has_gone_is_not_worked_for():
    upper = Upper()
    found = run(upper, [["a"], ["b"], ["c"], ["d"]], cancel=[0, 2])
    assert [found[1], found[3]] == [["B"], ["D"]]
    assert isinstance(found[0], asyncio.CancelledError)
    assert upper.calls == [["a"], ["b", "d"]]


def test_a_failure_is_told_and_the_next_call_goes_on():
    found = run(Upper(), [["a"], ["fail"], ["b" * 99]])
    assert isinstance(found[1], ValueError)
    assert (found[0], found[2]) == (["A"], ["B" * 99])
