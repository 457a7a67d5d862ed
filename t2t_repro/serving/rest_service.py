"""TensorFlow Serving's REST interface, a health check, and a page for people."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import NamedTuple

from absl import logging
from aiohttp import web
from google.protobuf.json_format import MessageToDict

from t2t_repro.serving.json_tensors import read_request, write_answer
from t2t_repro.serving.model_status import status_of
from t2t_repro.serving.request_error import RequestError, invalid
from t2t_repro.serving.request_queue import RequestQueue
from t2t_repro.serving.served_versions import ServedVersions

_MODEL = "/v1/models/{name:[^/:]+}"
_VERSION = _MODEL + r"/versions/{version:\d+}"
_LARGEST_VERSION = 2**63 - 1

_PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'"
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Limits(NamedTuple):
    """What a client may do.

    Attributes:
        request_bytes: most bytes of a request's body.
        seconds: how long it may take to send it, and say nothing between requests.
    """

    request_bytes: int
    seconds: float


class RestService:
    """Answers over HTTP.

    Args:
        versions: what is served.
        queue: where requests wait.
        limits: of requests.
    """

    def __init__(self, versions: ServedVersions, queue: RequestQueue, limits: Limits) -> None:
        self._versions = versions
        self._queue = queue
        self._limits = limits
        self._is_closing = False
        page = resources.files("t2t_repro.serving").joinpath("page.html").read_text("utf-8")
        self._page = page.replace("{{model}}", versions.name)
        application = web.Application(
            middlewares=[self._guarded], client_max_size=limits.request_bytes
        )
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
        await web.TCPSite(self._runner, host, port).start()
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
        try:
            if self._is_closing:
                raise web.HTTPServiceUnavailable(text="the server is shutting down")
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
        if self._is_closing:
            response.force_close()
        return response

    async def _predict(self, request: web.Request) -> web.Response:
        if (request.content_length or 0) > self._limits.request_bytes:
            raise web.HTTPRequestEntityTooLarge(
                self._limits.request_bytes, request.content_length or 0
            )
        async with asyncio.timeout(self._limits.seconds):
            body = await request.read()
        served = self._versions.served(request.match_info["name"], _version(request))
        asked = read_request(body, served.model.signature)
        outputs = await self._queue.answer(asked.signature, asked.inputs)
        return web.json_response(write_answer(outputs, asked.in_rows), dumps=_dumps)

    async def _status(self, request: web.Request) -> web.Response:
        status = status_of(self._versions, request.match_info["name"], _version(request))
        return web.json_response(_as_json(status))

    async def _metadata(self, request: web.Request) -> web.Response:
        served = self._versions.served(request.match_info["name"], _version(request))
        spec = {
            "name": self._versions.name,
            "signature_name": "",
            "version": str(served.number),
        }
        metadata = {"signature_def": _as_json(served.model.metadata)}
        return web.json_response({"model_spec": spec, "metadata": metadata})

    async def _health(self, request: web.Request) -> web.Response:
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
    if len(version) > len(str(_LARGEST_VERSION)) or int(version) > _LARGEST_VERSION:
        raise invalid(f"Failed to convert version: {version[:30]} to numeric.")
    return int(version)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _as_json(message: object) -> dict:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
