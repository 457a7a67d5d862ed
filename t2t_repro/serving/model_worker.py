"""The process of one version of a model: loads it, and answers until its server has gone.

What the version or a request does to it, it does to no other process: see `ModelProcess`, which
starts it.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from absl import logging

from t2t_repro.serving.asked import Asked
from t2t_repro.serving.frames import Frame, read_frame, write_frame
from t2t_repro.serving.request_error import RequestError

if TYPE_CHECKING:
    from t2t_repro.serving.answers import Answers


class Options(NamedTuple):
    """What a version's process is started with.

    Attributes:
        socket: number of the file through which it speaks to its server.
        path: the SavedModel's directory.
        name: of the model, as clients give it.
        number: of the version.
        memory_bytes: that it may take.
        rows: most of a request, and of requests computed together.
        request_bytes: most bytes that an input may become.
    """

    socket: int
    path: str
    name: str
    number: int
    memory_bytes: int
    rows: int
    request_bytes: int


def main() -> None:
    """Runs the process on the options in its one argument."""
    options = Options(**json.loads(sys.argv[1]))
    # The server ends it, when it has answered what it has taken.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _limit_memory(options.memory_bytes)
    asyncio.run(_serve(options))


def _limit_memory(size: int) -> None:
    """Has allocations fail beyond so many bytes, where the system can (macOS does not)."""
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size if most == resource.RLIM_INFINITY else min(size, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


async def _serve(options: Options) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=options.socket))
    # Read from the start: that the server has gone is noticed while the model is loaded, too.
    frames: asyncio.Queue[Frame] = asyncio.Queue()
    reading = asyncio.create_task(_read(reader, frames))
    try:
        answers = await asyncio.to_thread(_load, options)
    except MemoryError:
        size = f"{options.memory_bytes / 2**30:.3g} GiB"
        write_frame(writer, {"refused": f"it needs more than {size} (--memory_gb)"})
    # What is wrong with the files of a model can be anything.
    except Exception as error:
        from t2t_repro.errors import reason_of

        write_frame(writer, {"refused": reason_of(error)})
    else:
        write_frame(writer, {"refused": None})
        await _answer_all(answers, frames, writer)
    await reading


async def _read(reader: asyncio.StreamReader, frames: asyncio.Queue[Frame]) -> None:
    while frame := await read_frame(reader):
        frames.put_nowait(frame)
    # Whatever is under way: nobody would hear of it.
    os._exit(0)


def _load(options: Options) -> "Answers":

    import tensorflow as tf

    from t2t_repro.decoding.batch_plan import default_workers, one_core_a_batch
    from t2t_repro.serving.answers import Answers
    from t2t_repro.serving.loaded_model import LoadedModel
    from t2t_repro.serving.request_queue import RequestQueue
    from t2t_repro.serving.signature import RequestLimits

    one_core_a_batch()
    # The version before this one is served from the same GPU meanwhile.
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    limits = RequestLimits(options.rows, options.request_bytes)
    model = LoadedModel(Path(options.path), limits)
    queue = RequestQueue(default_workers(), options.rows)
    return Answers(model, options.name, options.number, queue, limits)


async def _answer_all(
    answers: "Answers", frames: asyncio.Queue[Frame], writer: asyncio.StreamWriter
) -> None:
    """Answers requests, many at a time, and gives up those that are called off."""
    under_way: dict[int, asyncio.Task[None]] = {}
    while True:
        head, body = await frames.get()
        number = head["id"]
        if head["call"] is None:
            if number in under_way:
                under_way[number].cancel()
            continue
        task = asyncio.create_task(_answer(answers, head, body, writer))
        under_way[number] = task
        task.add_done_callback(partial(_forget, under_way, number))


def _forget(under_way: dict[int, asyncio.Task[None]], number: int, _: asyncio.Task[None]) -> None:
    del under_way[number]


async def _answer(
    answers: "Answers", head: dict[str, Any], body: bytes, writer: asyncio.StreamWriter
) -> None:
    asked = Asked.from_head(head)
    try:
        answer = await answers.calls[asked.call](asked, body)
        write_frame(writer, {"id": head["id"], "code": "OK"}, answer)
    except Exception as error:
        write_frame(writer, {"id": head["id"], **_as_head(error)})
    await writer.drain()


def _as_head(error: Exception) -> dict[str, str]:
    if isinstance(error, RequestError):
        return {"code": error.code.name, "message": str(error)}
    logging.error("a request failed", exc_info=error)
    return {"code": "INTERNAL", "message": "the server failed; its log says more"}
