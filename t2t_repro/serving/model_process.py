"""A version of a model in a process of its own, seen from the server.

The server itself reads no request's content and computes nothing: what a version or a request does,
in time, memory or failures, it does to that process alone.
"""

import asyncio
import itertools
import json
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import grpc
from absl import logging

from t2t_repro.errors import printable
from t2t_repro.serving.asked import Asked
from t2t_repro.serving.frames import read_frame, write_frame
from t2t_repro.serving.model_worker import Options
from t2t_repro.serving.request_error import RequestError

# With this process's way to find modules.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from t2t_repro.serving.model_worker import main; main()"
)

_LOG_LINES = 1000
_LOG_WIDTH = 2000
"""What a version may say, and how much of a line is shown."""


class VersionLimits(NamedTuple):
    """What a version may take, and its requests.

    Attributes:
        load_seconds: until it is loaded and warmed up.
        memory_bytes: of its process.
        rows: most of a request, and of requests computed together.
        request_bytes: most bytes of a request, and of an input that it becomes.
    """

    load_seconds: float
    memory_bytes: int
    rows: int
    request_bytes: int


class VersionError(Exception):
    """A version that cannot be served; the message says why."""


class ModelProcess:
    """A version that answers requests.

    Made by `start`.

    Attributes:
        number: of the version.
        ended: done when it answers no longer.
    """

    def __init__(
        self,
        number: int,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.number = number
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._is_retired = False
        self._log = asyncio.create_task(self._pass_on_log())
        self.ended: asyncio.Task[None]

    @classmethod
    async def start(
        cls, path: Path, name: str, number: int, limits: VersionLimits
    ) -> "ModelProcess":
        """Starts a process, which loads the version and warms it up.

        Args:
            path: the SavedModel's directory.
            name: of the model, as clients give it.
            number: of the version.
            limits: what it may take.

        Raises:
            VersionError: it could not be loaded, or not within the limits.
        """
        ours, theirs = socket.socketpair()
        memory, rows, request_bytes = limits[1:]
        options = Options(theirs.fileno(), str(path), name, number, memory, rows, request_bytes)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                # -P: else json is looked for in the working directory, which may be a stranger's.
                sys.executable, "-P", "-c", _START,
                json.dumps(options._asdict()), json.dumps(sys.path),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
        reader, writer = await asyncio.open_connection(sock=ours)
        model = cls(number, process, reader, writer)
        try:
            await model._await_loaded(limits)
        except BaseException:
            await model._end()
            raise
        model.ended = asyncio.create_task(model._take_answers())
        return model

    async def ask(self, asked: Asked, body: bytes) -> bytes:
        """Asks for an answer; who gives up asking, by cancelling this, stops the work on it.

        Args:
            asked: what is asked.
            body: of the request.

        Raises:
            RequestError: the request can't be answered.
        """
        if self.ended.done():
            raise _gone()
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            # Until the process takes more: what is written stays, though its client goes.
            await self._writer.drain()
            write_frame(self._writer, {"id": number, **asked.as_head()}, body)
            return await answer
        except ConnectionError as error:
            raise _gone() from error
        except asyncio.CancelledError:
            write_frame(self._writer, {"id": number, "call": None})
            raise
        finally:
            del self._asked[number]
            self._end_if_idle()

    def retire(self) -> None:
        """Ends the process when it has answered what it was asked."""
        self._is_retired = True
        self._end_if_idle()

    async def _await_loaded(self, limits: VersionLimits) -> None:
        try:
            async with asyncio.timeout(limits.load_seconds):
                frame = await read_frame(self._reader)
        except TimeoutError as error:
            raise VersionError(
                f"it was not loaded and warmed up within {limits.load_seconds:g} s (--load_seconds)"
            ) from error
        if frame is None:
            raise VersionError(
                f"its process ended while it was loaded, with {await self._status()}; it may take "
                f"{limits.memory_bytes / 2**30:.3g} GiB (--memory_gb)"
            )
        if reason := frame.head["refused"]:
            raise VersionError(reason)

    async def _take_answers(self) -> None:
        """Takes answers until the process ends, or this is cancelled; then it ends for certain."""
        try:
            while frame := await read_frame(self._reader):
                answer = self._asked.get(frame.head["id"])
                if answer is None or answer.done():
                    continue
                if frame.head["code"] == "OK":
                    answer.set_result(frame.body)
                else:
                    code = grpc.StatusCode[frame.head["code"]]
                    answer.set_exception(RequestError(code, printable(frame.head["message"])))
            if not self._is_retired:
                logging.error("version %d ended with %s", self.number, await self._status())
        finally:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(_gone())
            await self._end()

    def _end_if_idle(self) -> None:
        if self._is_retired and not self._asked:
            self._writer.close()

    async def _status(self) -> str:
        """How the process ended."""
        status = await self._process.wait()
        return signal.Signals(-status).name if status < 0 else f"status {status}"

    async def _end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._writer.close()
        await self._process.wait()
        await self._log

    async def _pass_on_log(self) -> None:
        """Logs what the process writes: lines of a bounded number and size, of printable text."""
        assert self._process.stdout is not None
        lines, rest = 0, b""
        while block := await self._process.stdout.read(2**16):
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                if line:
                    self._log_line(line, lines)
                    lines += 1
            rest = rest[:_LOG_WIDTH]
        if rest:
            self._log_line(rest, lines)

    def _log_line(self, line: bytes, before: int) -> None:
        if before > _LOG_LINES:
            return
        text = printable(line[:_LOG_WIDTH].decode("utf-8", "replace"))
        if before == _LOG_LINES:
            text = "says too much: no more of it is shown"
        logging.warning("version %d: %s", self.number, text)


def _gone() -> RequestError:
    return RequestError(
        grpc.StatusCode.UNAVAILABLE, "the model's process has ended and is started again"
    )
