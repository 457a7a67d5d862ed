"""The server: REST and gRPC on one model, from the first version to the last request."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from absl import logging

from t2t_repro.decoding.batch_plan import available_memory
from t2t_repro.errors import UserError
from t2t_repro.serving.allowed_hosts import AllowedHosts
from t2t_repro.serving.authority import authority
from t2t_repro.serving.grpc_service import GrpcService
from t2t_repro.serving.model_process import VersionLimits
from t2t_repro.serving.request_room import RequestRoom
from t2t_repro.serving.rest_service import Limits, RestService
from t2t_repro.serving.served_versions import ServedVersions

_REFUSING_SECONDS = 0.5
"""For so long new requests are told that the server ends, before the ports are closed."""

_LEAST_MEMORY = 2**30
"""What a small model needs, TensorFlow included; it may be there where less seems to be free."""


class Options(NamedTuple):
    """What a server is started with, in the names of the verb's flags.

    Attributes:
        export_dir: holds the model's versions.
        model_name: as clients give it.
        host: the address to listen at.
        allowed_host: names by which clients may call it, beside that one and this machine's own.
        rest_port: for REST; 0 for any that is free.
        grpc_port: for gRPC; 0 for any that is free.
        max_request_mb: most MiB of a request.
        client_seconds: how long a client may take to send a request.
        max_batch_size: most rows of a request, and of requests computed together.
        max_waiting: how many requests may be there at a time.
        max_waiting_mb: most MiB of them.
        poll_seconds: how often the server looks for other versions.
        load_seconds: until a version must be loaded and warmed up.
        memory_gb: most GiB that a version may take; None for three quarters of what is free.
        drain_seconds: how long a server that is told to end works on what it has taken.
    """

    export_dir: str
    model_name: str
    host: str
    allowed_host: Sequence[str]
    rest_port: int
    grpc_port: int
    max_request_mb: float
    client_seconds: float
    max_batch_size: int
    max_waiting: int
    max_waiting_mb: float
    poll_seconds: float
    load_seconds: float
    memory_gb: float | None
    drain_seconds: float


async def serve(options: Options) -> None:
    """Serves a model until SIGTERM or SIGINT; then finishes what it has taken.

    Raises:
        UserError: there is no version that can be loaded, or a port can't be opened.
    """
    is_told_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, is_told_to_end.set)
    versions = ServedVersions(
        options.model_name, Path(options.export_dir), _version_limits(options)
    )
    end = asyncio.create_task(is_told_to_end.wait())
    start = asyncio.create_task(versions.start())
    await asyncio.wait([start, end], return_when=asyncio.FIRST_COMPLETED)
    try:
        if start.done():
            await start
            await _answer(options, versions, is_told_to_end)
    finally:
        versions.close()
    logging.info("ended")


async def _answer(options: Options, versions: ServedVersions, end: asyncio.Event) -> None:
    """Answers requests until the end, and then those that were taken."""
    request_bytes = _bytes(options.max_request_mb, 20)
    hosts = AllowedHosts(options.host, options.allowed_host)
    room = RequestRoom(options.max_waiting, _bytes(options.max_waiting_mb, 20))
    rest = RestService(versions, room, Limits(request_bytes, options.client_seconds, hosts))
    remote = GrpcService(versions, room, request_bytes, options.client_seconds)
    await _open_ports(options, rest, remote)
    watcher = asyncio.create_task(_watch(versions, remote, options.poll_seconds))

    await end.wait()
    logging.info("ending: finishing the requests taken, refusing others")
    watcher.cancel()
    rest.refuse()
    await remote.refuse()
    refusing = min(_REFUSING_SECONDS, options.drain_seconds)
    await asyncio.sleep(refusing)
    left = options.drain_seconds - refusing
    await asyncio.gather(remote.stop(left), rest.stop(left))


async def _watch(versions: ServedVersions, remote: GrpcService, poll_seconds: float) -> None:
    """Has versions changed, and their health reported, for ever."""
    while True:
        await versions.wait(poll_seconds)
        try:
            await versions.look()
        # A bug, which is no reason to end: the version that is served goes on.
        except Exception:
            logging.exception("looking for versions failed")
        await remote.say_healthy(versions.is_served)


def _version_limits(options: Options) -> VersionLimits:
    if options.memory_gb is not None:
        memory = _bytes(options.memory_gb, 30)
    else:
        available = available_memory()
        memory = max(available * 3 // 4, _LEAST_MEMORY) if available else sys.maxsize
    return VersionLimits(
        load_seconds=options.load_seconds,
        memory_bytes=memory,
        rows=options.max_batch_size,
        request_bytes=_bytes(options.max_request_mb, 20),
    )


def _bytes(count: float, power: int) -> int:
    return int(count * 2**power)


async def _open_ports(options: Options, rest: RestService, remote: GrpcService) -> None:
    host = options.host
    rest_port = await _open("rest_port", rest, host, options.rest_port)
    grpc_port = await _open("grpc_port", remote, host, options.grpc_port)
    logging.info("REST and a page: http://%s/", authority(host, rest_port))
    logging.info("gRPC: %s", authority(host, grpc_port))


async def _open(flag: str, service: RestService | GrpcService, host: str, port: int) -> int:
    try:
        return await service.start(host, port)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "cannot be opened"
        raise UserError(
            f"--host={host} --{flag}={port}: {reason}; expected an address of this machine, such "
            "as 127.0.0.1 or ::1, and a free port."
        ) from error
