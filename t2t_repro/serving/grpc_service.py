"""TensorFlow Serving's PredictionService and ModelService, and gRPC's own health check.

Messages pass through unread: the model's process reads them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
from absl import logging
from google.protobuf.message import DecodeError
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from t2t_repro.serving.asked import Asked
from t2t_repro.serving.authority import authority
from t2t_repro.serving.request_error import RequestError, invalid
from t2t_repro.serving.request_room import RequestRoom
from t2t_repro.serving.served_versions import ServedVersions

_STREAMS = 1024
"""Calls of a connection at a time; a client keeps others back."""

_HEALTH_CHECKS = 64
"""Questions for its health that a server receives at a time: also where it has no other room."""

_Requests = AsyncIterator[bytes]
_Handle = Callable[[_Requests, grpc.aio.ServicerContext], Awaitable[bytes]]


class GrpcService:
    """Answers over gRPC.

    Args:
        versions: what is served.
        room: for requests.
        request_bytes: most bytes of a request.
        client_seconds: how long a client may take to send one.
    """

    def __init__(
        self,
        versions: ServedVersions,
        room: RequestRoom,
        request_bytes: int,
        client_seconds: float,
    ) -> None:
        options = {
            "grpc.max_receive_message_length": request_bytes,
            "grpc.max_concurrent_streams": _STREAMS,
            # Two servers on one port would share its requests.
            "grpc.so_reuseport": 0,
        }
        self._server = grpc.aio.server(options=list(options.items()))
        self._health = health.aio.HealthServicer()
        self._calls = _Calls(versions, _Inbox(room, client_seconds))
        checks = RequestRoom(_HEALTH_CHECKS, _HEALTH_CHECKS * request_bytes)
        self._checks = _Inbox(checks, client_seconds)
        serving = "/tensorflow.serving"
        handlers = {
            f"{serving}.PredictionService/Predict": self._calls.handler("grpc_predict"),
            f"{serving}.PredictionService/GetModelMetadata": self._calls.handler("grpc_metadata"),
            f"{serving}.ModelService/GetModelStatus": self._calls.handler("grpc_status"),
            "/grpc.health.v1.Health/Check": _unary(self._check_health),
            "/grpc.health.v1.Health/Watch": grpc.stream_stream_rpc_method_handler(
                self._watch_health
            ),
        }
        self._server.add_generic_rpc_handlers([_Handlers(handlers)])

    async def start(self, host: str, port: int) -> int:
        """Opens the port, any free one for 0, and returns its number.

        Raises:
            RuntimeError: it can't be opened.
        """
        bound = self._server.add_insecure_port(authority(host, port))
        await self._server.start()
        await self.say_healthy(True)
        return bound

    async def say_healthy(self, is_served: bool) -> None:
        """Has the health check say whether there is a model that answers."""
        status = HealthCheckResponse.SERVING if is_served else HealthCheckResponse.NOT_SERVING
        await self._health.set("", status)

    async def refuse(self) -> None:
        """From now on every new request is answered with UNAVAILABLE."""
        self._calls.is_closing = True
        await self._health.enter_graceful_shutdown()

    async def stop(self, seconds: float) -> None:
        """Closes the port and finishes the requests that were taken.

        Args:
            seconds: what is not answered by then is given up.
        """
        await self._server.stop(seconds)

    async def _check_health(self, requests: _Requests, context: grpc.aio.ServicerContext) -> bytes:
        async with _guarded(context):
            response = await self._health.Check(await self._health_request(requests), context)
            return response.SerializeToString()

    async def _watch_health(
        self, requests: _Requests, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[bytes]:
        async with _guarded(context):
            request = await self._health_request(requests)
            async for response in self._health.Watch(request, context):
                yield response.SerializeToString()

    async def _health_request(self, requests: _Requests) -> HealthCheckRequest:
        async with self._checks.one(requests) as request:
            try:
                return HealthCheckRequest.FromString(request)
            except DecodeError as error:
                raise invalid("the request is no grpc.health.v1.HealthCheckRequest") from error


class _Inbox:
    """Receives requests, for each of which there is room before any of it is received.

    gRPC keeps what has arrived of a request until all of it is there.

    Args:
        room: for them.
        seconds: how long a client may take to send one.
    """

    def __init__(self, room: RequestRoom, seconds: float) -> None:
        self._room = room
        self._seconds = seconds

    @asynccontextmanager
    async def one(self, requests: _Requests) -> AsyncIterator[bytes]:
        """Receives the one request of a call, and holds its room.

        Raises:
            RequestError: there is no room, or no request within the time.
        """
        with self._room.of_one() as take:
            try:
                async with asyncio.timeout(self._seconds):
                    request = await anext(requests)
            except TimeoutError as error:
                reason = f"no whole request within {self._seconds:g} s"
                raise RequestError(grpc.StatusCode.DEADLINE_EXCEEDED, reason) from error
            except StopAsyncIteration as error:
                raise invalid("there is no request") from error
            take(len(request))
            yield request


class _Calls:
    """Passes requests on to the version that is served.

    Attributes:
        is_closing: whether requests are refused. gRPC itself, when it stops, cancels what has
            arrived and has no answer under way, which tells nobody to ask another server.
    """

    def __init__(self, versions: ServedVersions, inbox: _Inbox) -> None:
        self.is_closing = False
        self._versions = versions
        self._inbox = inbox

    def handler(self, call: str) -> grpc.RpcMethodHandler:
        """What answers a method of gRPC with one of `Answers.calls`."""

        async def handle(requests: _Requests, context: grpc.aio.ServicerContext) -> bytes:
            async with _guarded(context):
                if self.is_closing:
                    raise RequestError(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
                asked = Asked(call, refused=self._versions.refused)
                async with self._inbox.one(requests) as request:
                    return await self._versions.served().ask(asked, request)

        return _unary(handle)


class _Handlers(grpc.GenericRpcHandler):
    """Handlers by the path of their method."""

    def __init__(self, handlers: dict[str, grpc.RpcMethodHandler]) -> None:
        self._handlers = handlers

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """The handler of a method; None where there is none."""
        return self._handlers.get(details.method)


def _unary(handle: _Handle) -> grpc.RpcMethodHandler:
    # Of a call whose one request is expected, gRPC receives that before it calls anything.
    return grpc.stream_unary_rpc_method_handler(handle)


@asynccontextmanager
async def _guarded(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """Turns what goes wrong into a status."""
    try:
        yield
    except RequestError as error:
        await context.abort(error.code, str(error))
    except grpc.aio.AbortError:
        raise
    except Exception:
        logging.exception("a request failed")
        await context.abort(grpc.StatusCode.INTERNAL, "the server failed; its log says more")
