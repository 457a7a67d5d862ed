"""TensorFlow Serving's REST interface, a health check, and a page for people."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import NamedTuple

from absl import logging
from aiohttp import web

from t2t_repro.formats.saved_model.version_numbers import LARGEST_VERSION
from t2t_repro.serving.allowed_hosts import AllowedHosts
from t2t_repro.serving.asked import NONE_REFUSED, Asked
from t2t_repro.serving.open_connection import OpenConnection, OpenSite
from t2t_repro.serving.request_error import RequestError, invalid
from t2t_repro.serving.request_room import RequestRoom
from t2t_repro.serving.served_versions import ServedVersions

_MODEL = "/v1/models/{name:[^/:]+}"
_VERSION = _MODEL + r"/versions/{version:\d+}"

_PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'"
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Limits(NamedTuple):
    """What a client may do.

    Attributes:
        request_bytes: most bytes of a request's body.
        seconds: how long it may take to send it, to take its answer, and say nothing between
            requests.
        hosts: the names by which it may call the server.
    """

    request_bytes: int
    seconds: float
    hosts: AllowedHosts


class RestService:
    """Answers over HTTP.

    Args:
        versions: what is served.
        room: for requests.
        limits: of requests.
    """

    def __init__(self, versions: ServedVersions, room: RequestRoom, limits: Limits) -> None:
        self._versions = versions
        self._room = room
        self._limits = limits
        self._is_closing = False
        page = resources.files("t2t_repro.serving").joinpath("page.html").read_text("utf-8")
        self._page = page.replace("{{model}}", versions.name)
        application = web.Application(middlewares=[self._guarded])
        application.add_routes(self._routes())
        # A client that hangs up is not waited for.
        self._runner = web.AppRunner(
            application,
            handler_cancellation=True,
            keepalive_timeout=limits.seconds,
            access_log=None,
        )

    async def start(self, host: str, port: int) -> int:
        """Opens the port, any free one for 0, and returns its number.

        Raises:
            OSError: it can't be opened.
        """
        await self._runner.setup()
        await OpenSite(self._runner, host, port).start()
        return self._runner.addresses[0][1]

    def refuse(self) -> None:
        """From now on every new request is answered with 503."""
        self._is_closing = True

    async def stop(self, seconds: float) -> None:
        """Closes the port and finishes the requests that it has taken.

        Args:
            seconds: what is not answered by then is given up.
        """
        self._runner._shutdown_timeout = seconds
        await self._runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self._show_page),
            web.get("/health", self._health),
            *(web.post(path + ":predict", self._predict) for path in (_MODEL, _VERSION)),
            *(web.get(path, self._status) for path in (_MODEL, _VERSION)),
            *(web.get(path + "/metadata", self._metadata) for path in (_MODEL, _VERSION)),
            web.route("*", "/v1/{rest:.*}", self._malformed),
        ]

    @web.middleware
    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answers with {"error": ...} whatever goes wrong."""
        connection = _connection(request)
        connection.begin(request)
        try:
            if self._is_closing:
                raise web.HTTPServiceUnavailable(text="the server is shutting down")
            self._limits.hosts.check(request.headers.get("Host"))
            response = await handler(request)
        except RequestError as error:
            response = _error(error.http_status, str(error))
        except web.HTTPException as error:
            response = _error(error.status, error.text or error.reason)
        except TimeoutError:
            response = _error(408, f"no whole body within {self._limits.seconds:g} s")
        except Exception:
            logging.exception("%s %s failed", request.method, request.path)
            response = _error(500, "the server failed; its log says more")
        finally:
            connection.end()
        self._begin_answer(connection, response)
        return response

    def _begin_answer(self, connection: OpenConnection, response: web.StreamResponse) -> None:
        connection.answer(response)
        if self._is_closing:
            response.force_close()

    async def _predict(self, request: web.Request) -> web.Response:
        # A page of another site can send other types, and have the work done, without being asked.
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(
                text=f"Content-Type is {request.content_type}, expected application/json"
            )
        with self._room.of_one() as take:
            async with asyncio.timeout(self._limits.seconds):
                body = await self._body(request, take)
            answer = await self._ask(request, "rest_predict", body)
            return await self._sent(request, answer)

    async def _body(self, request: web.Request, take: Callable[[int], None]) -> bytes:
        most = self._limits.request_bytes
        size = request.content_length or 0
        if size > most:
            raise web.HTTPRequestEntityTooLarge(most, size)
        body = bytearray()
        async for part in request.content.iter_any():
            take(len(part))
            body += part
            if len(body) > most:
                raise web.HTTPRequestEntityTooLarge(most, len(body))
        return bytes(body)

    async def _status(self, request: web.Request) -> web.Response:
        answer = await self._ask(request, "rest_status", refused=self._versions.refused)
        return web.json_response(body=answer)

    async def _metadata(self, request: web.Request) -> web.Response:
        return web.json_response(body=await self._ask(request, "rest_metadata"))

    async def _ask(
        self,
        request: web.Request,
        call: str,
        body: bytes = b"",
        refused: Mapping[int, str] = NONE_REFUSED,
    ) -> bytes:
        name, version = request.match_info["name"], _version(request)
        return await self._versions.served().ask(Asked(call, name, version, refused), body)

    async def _sent(self, request: web.Request, answer: bytes) -> web.Response:
        """The response that an answer was sent with, or given up with, as nobody took it."""
        response = web.json_response(body=answer)
        self._begin_answer(_connection(request), response)
        try:
            async with asyncio.timeout(self._limits.seconds):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _health(self, request: web.Request) -> web.Response:
        if not self._versions.is_served:
            return web.json_response({"status": "loading"}, status=503)
        return web.json_response({"status": "ok"})

    async def _show_page(self, request: web.Request) -> web.Response:
        headers = {"Content-Security-Policy": _PAGE_POLICY}
        return web.Response(text=self._page, content_type="text/html", headers=headers)

    async def _malformed(self, request: web.Request) -> web.Response:
        raise invalid(f"Malformed request: {request.method} {request.path}")


def _version(request: web.Request) -> int | None:
    """The version that the path names."""
    version = request.match_info.get("version")
    if version is None:
        return None
    if len(version) > len(str(LARGEST_VERSION)) or int(version) > LARGEST_VERSION:
        raise invalid(f"Failed to convert version: {version[:30]} to numeric.")
    return int(version)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def _connection(request: web.Request) -> OpenConnection:
    """The connection of a request that is being handled."""
    transport = request.transport
    # It has just gone.
    if transport is None:
        raise asyncio.CancelledError
    connection = transport.get_protocol()
    assert isinstance(connection, OpenConnection)
    return connection
