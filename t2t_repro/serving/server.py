"""The server: REST and gRPC on one model, from the first version to the last request."""

import asyncio
import signal
from pathlib import Path
from typing import NamedTuple

from absl import logging

from t2t_repro.decoding.cores import idle_workers, one_core_a_batch
from t2t_repro.errors import UserError
from t2t_repro.quiet_start import without_notes
from t2t_repro.serving.grpc_service import GrpcService
from t2t_repro.serving.request_queue import RequestQueue
from t2t_repro.serving.rest_service import Limits, RestService
from t2t_repro.serving.served_versions import ServedVersions

_REFUSING_SECONDS = 0.5
"""For so long new requests are told that the server ends, before the ports are closed."""


class Options(NamedTuple):
    """What a server is started with, in the names of the verb's flags.

    Attributes:
        export_dir: holds the model's versions.
        model_name: as clients give it.
        host: the address to listen at.
        rest_port: for REST; 0 for any that is free.
        grpc_port: for gRPC; 0 for any that is free.
        max_request_mb: most MiB of a request.
        client_seconds: how long a client may take to send a request's body over REST.
        max_batch_size: most rows of a request, and of requests computed together.
        max_waiting: how many requests may wait.
        poll_seconds: how often the server looks for other versions.
        drain_seconds: how long a server that is told to end works on what it has taken.
    """

    export_dir: str
    model_name: str
    host: str
    rest_port: int
    grpc_port: int
    max_request_mb: float
    client_seconds: float
    max_batch_size: int
    max_waiting: int
    poll_seconds: float
    drain_seconds: float


async def serve(options: Options) -> None:
    """Serves a model until SIGTERM or SIGINT; then finishes what it has taken.

    Raises:
        UserError: there is no version that can be loaded, or a port can't be opened.
    """
    one_core_a_batch()
    versions = ServedVersions(options.model_name, Path(options.export_dir))
    with without_notes():
        await versions.start()
    queue = RequestQueue(idle_workers(), options.max_batch_size, options.max_waiting)
    request_bytes = int(options.max_request_mb * 2**20)
    rest = RestService(versions, queue, Limits(request_bytes, options.client_seconds))
    remote = GrpcService(versions, queue, request_bytes)

    is_told_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, is_told_to_end.set)
    await _open_ports(options, rest, remote)
    watcher = asyncio.create_task(versions.watch(options.poll_seconds))

    await is_told_to_end.wait()
    logging.info("ending: finishing the requests taken, refusing others")
    watcher.cancel()
    rest.refuse()
    await remote.refuse()
    await asyncio.sleep(_REFUSING_SECONDS)
    await asyncio.gather(remote.stop(options.drain_seconds), rest.stop(options.drain_seconds))
    queue.close()
    logging.info("ended")


async def _open_ports(options: Options, rest: RestService, remote: GrpcService) -> None:
    host = options.host
    rest_port = await _open("rest_port", rest, host, options.rest_port)
    grpc_port = await _open("grpc_port", remote, host, options.grpc_port)
    logging.info("REST and a page: http://%s:%d/", host, rest_port)
    logging.info("gRPC: %s:%d", host, grpc_port)


async def _open(flag: str, service: RestService | GrpcService, host: str, port: int) -> int:
    try:
        return await service.start(host, port)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "cannot be opened"
        raise UserError(
            f"--host={host} --{flag}={port}: {reason}; expected an address of this machine and a "
            "free port."
        ) from error
