"""Joins waiting requests into calls of the translator."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from t2t_repro.serving.predict import Columns, Request

_SIMILAR_CHARACTERS = 40
"""Texts whose lengths differ by less count as similar."""


class _Waiting(NamedTuple):
    """A request that waits.

    Attributes:
        request: what is asked for.
        length: characters of its longest text.
        outputs: will hold the answer; cancelled if the client has hung up.
    """

    request: Request
    length: int
    outputs: asyncio.Future[Columns]


class RequestQueue:
    """Answers requests, several in one call of the translator.

    A call takes the oldest request, and others of the same signature and of similar length: one
    long sentence does not delay many short ones.

    Args:
        functions: compute the outputs of each signature.
        workers: the number of calls at a time.
        max_rows: the most rows of a call.
    """

    def __init__(
        self, functions: Mapping[str, Callable[..., Columns]], workers: int, max_rows: int
    ) -> None:
        self._functions = functions
        self._idle = self._workers = workers
        self._max_rows = max_rows
        self._waiting: list[_Waiting] = []
        self._threads = ThreadPoolExecutor(workers)

    @property
    def is_busy(self) -> bool:
        """True while a call is running."""
        return self._idle < self._workers

    async def answer(self, request: Request) -> Columns:
        """Computes the outputs of a request; nothing, if it is cancelled in time.

        Raises:
            Exception: what the translator raised.
        """
        loop = asyncio.get_running_loop()
        texts = (text for column in request.columns.values() for text in column)
        length = max(map(len, texts), default=0)
        waiting = _Waiting(request, length, loop.create_future())
        self._waiting.append(waiting)
        # Requests that arrive at the same moment are seen together.
        loop.call_soon(self._start_calls)
        return await waiting.outputs

    def _start_calls(self) -> None:
        self._waiting = [one for one in self._waiting if not one.outputs.cancelled()]
        while self._idle and self._waiting:
            together = self._take()
            self._idle -= 1
            requests = [one.request for one in together]
            loop = asyncio.get_running_loop()
            call = loop.run_in_executor(self._threads, self._compute, requests)
            call.add_done_callback(partial(self._finish, together))

    def _take(self) -> list[_Waiting]:
        """Removes the requests of the next call from those that wait."""
        first, *others = self._waiting
        # Every idle worker gets a share.
        share = math.ceil(sum(one.request.rows for one in self._waiting) / self._idle)
        room = min(share, self._max_rows) - first.request.rows
        together, self._waiting = [first], []
        for one in others:
            if one.request.rows <= room and _fit_together(first, one):
                together.append(one)
                room -= one.request.rows
            else:
                self._waiting.append(one)
        return together

    def _compute(self, requests: Sequence[Request]) -> list[Columns]:
        """Computes the outputs of requests of one signature, in one call."""
        function = self._functions[requests[0].signature]
        joined = {
            name: [text for request in requests for text in request.columns[name]]
            for name in requests[0].columns
        }
        outputs = function(**joined)
        parts, first = [], 0
        for request in requests:
            rows = slice(first, first + request.rows)
            parts.append({name: column[rows] for name, column in outputs.items()})
            first += request.rows
        return parts

    def _finish(self, together: Sequence[_Waiting], call: asyncio.Future[list[Columns]]) -> None:
        self._idle += 1
        self._start_calls()
        error = call.exception()
        for index, one in enumerate(together):
            if one.outputs.cancelled():
                continue
            if error:
                one.outputs.set_exception(error)
            else:
                one.outputs.set_result(call.result()[index])


def _fit_together(first: _Waiting, second: _Waiting) -> bool:
    shorter, longer = sorted((first.length, second.length))
    is_similar = longer <= 2 * shorter + _SIMILAR_CHARACTERS
    return first.request.signature == second.request.signature and is_similar
