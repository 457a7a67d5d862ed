"""Requests that wait, and which of them are computed together."""

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.serving.cancellation import Cancellation
from t2t_repro.serving.signature import Arrays, Signature

_ALIKE_BYTES = 40
"""Texts that differ by less are as good as equally long."""


class _Waiting(NamedTuple):
    """A request.

    Attributes:
        signature: what is to be computed.
        inputs: of what.
        rows: how many.
        length: bytes of its longest text, the size of its longest axis, or 0.
        answer: where the outputs go.
    """

    signature: Signature
    inputs: Arrays
    rows: int
    length: int
    answer: asyncio.Future[dict[str, NDArray]]


class RequestQueue:
    """Joins requests that wait into one call of the model.

    Nobody waits for company: an idle worker takes what is there, so requests are joined just when
    all workers are busy. The oldest request is taken first, and others along with it whose
    sentences are about as long: one long sentence doesn't keep short ones waiting. A call is given
    up when nobody waits for it any more.

    Args:
        workers: how many calls are made at the same time.
        max_rows: of a call; a request of more is a call by itself.
    """

    def __init__(self, workers: int, max_rows: int) -> None:
        self._idle = workers
        self._max_rows = max_rows
        self._waiting: dict[asyncio.Future[dict[str, NDArray]], _Waiting] = {}
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="model")

    async def answer(self, signature: Signature, inputs: Arrays) -> dict[str, NDArray]:
        """Answers a request when its turn has come; cancelled before, it is never computed.

        Raises:
            RequestError: the inputs are not the signature's, or the computation failed.
        """
        rows = signature.rows(inputs)
        loop = asyncio.get_running_loop()
        request = _Waiting(signature, inputs, rows, _longest(inputs), loop.create_future())
        self._waiting[request.answer] = request
        # Later, so that what arrived at the same moment is seen together.
        loop.call_soon(self._start)
        try:
            return await request.answer
        finally:
            self._waiting.pop(request.answer, None)

    def _start(self) -> None:
        """Gives the idle workers what waits."""
        loop = asyncio.get_running_loop()
        while self._idle and (together := self._take()):
            self._idle -= 1
            cancellation = Cancellation()
            for request in together:
                request.answer.add_done_callback(partial(_give_up, together, cancellation))
            done = loop.run_in_executor(self._pool, _compute, together, cancellation)
            done.add_done_callback(partial(self._finish, together))

    def _take(self) -> list[_Waiting]:
        """Takes out the requests of the next call: none if none waits."""
        waiting = [request for request in self._waiting.values() if not request.answer.done()]
        # Two workers do two halves in less time than one does the whole.
        share = math.ceil(sum(request.rows for request in waiting) / max(self._idle, 1))
        room = min(share, self._max_rows)
        together: list[_Waiting] = []
        for request in waiting:
            if not together or (_go_together(together[0], request) and request.rows <= room):
                together.append(self._waiting.pop(request.answer))
                room -= request.rows
        return together

    def _finish(
        self, together: Sequence[_Waiting], done: asyncio.Future[list[dict[str, NDArray]]]
    ) -> None:
        self._idle += 1
        self._start()
        error = done.exception()
        for number, request in enumerate(together):
            if request.answer.done():
                continue
            if error:
                request.answer.set_exception(error)
            else:
                request.answer.set_result(done.result()[number])


def _longest(inputs: Arrays) -> int:
    return max(
        max(map(len, array.flat), default=0)
        if array.dtype == object
        else max(array.shape[1:] or [0])
        for array in inputs.values()
    )


def _go_together(first: _Waiting, second: _Waiting) -> bool:
    shorter, longer = sorted((first.length, second.length))
    return (
        first.signature is second.signature
        and first.signature.is_joinable
        and longer <= 2 * shorter + _ALIKE_BYTES
    )


def _give_up(
    together: Sequence[_Waiting], cancellation: Cancellation, _: asyncio.Future[object]
) -> None:
    """Ends a call if all who wait for it have gone."""
    if all(request.answer.cancelled() for request in together):
        cancellation.give_up()


def _compute(together: Sequence[_Waiting], cancellation: Cancellation) -> list[dict[str, NDArray]]:
    """The outputs of each request, computed in one call."""
    first = together[0]
    if len(together) == 1:
        return [first.signature(first.inputs, cancellation)]
    joined = {
        name: np.concatenate([request.inputs[name] for request in together])
        for name in first.inputs
    }
    outputs = first.signature(joined, cancellation)
    ends = np.cumsum([request.rows for request in together])[:-1]
    parts = {name: np.split(array, ends) for name, array in outputs.items()}
    return [{name: parts[name][row] for name in parts} for row in range(len(together))]
