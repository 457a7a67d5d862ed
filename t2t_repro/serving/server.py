"""A server for one machine: TensorFlow Serving's REST interface, LibreTranslate's, and a page."""

import asyncio
import ipaddress
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hmac import compare_digest
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from absl import logging
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from t2t_repro.decoding.batch_plan import default_workers
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError, reason_of
from t2t_repro.serving.libretranslate import Direction, Query, frontend_settings, languages
from t2t_repro.serving.predict import (
    Answers,
    RequestQueue,
    read_json,
    read_request,
    write_answer,
)

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_Read = Callable[[web.Request], Awaitable[Any]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Options(NamedTuple):
    """The options of a server, by the names of the command's flags.

    Attributes:
        model_name: as clients give it.
        host: the address to listen on.
        allowed_host: names of the server in requests, besides `host` and this machine's own.
        rest_port: 0 for any free port.
        max_request_mb: the most MiB of a request.
        client_seconds: the most seconds for a client to send a request.
        max_batch_size: the most rows of a request, and of requests that are joined.
        max_waiting: the most requests at a time.
        drain_seconds: the most seconds to finish requests after SIGTERM.
        split_sentences: whether texts are translated sentence by sentence.
        source_language: the language by which they are split.
        max_characters: the most characters of a request in LibreTranslate's protocol.
        api_key: what such requests need; None if anybody may ask. With a key, nothing is
            translated for other requests.
    """

    model_name: str
    host: str
    allowed_host: Sequence[str]
    rest_port: int
    max_request_mb: float
    client_seconds: float
    max_batch_size: int
    max_waiting: int
    drain_seconds: float
    split_sentences: bool
    source_language: str
    max_characters: int
    api_key: str | None


class Server:
    """Answers requests over HTTP.

    Args:
        translator: called by several threads, so it should have one worker.
        options: addresses and limits.
        directions: that are served in LibreTranslate's protocol.
    """

    def __init__(
        self, translator: Translator, options: Options, directions: Sequence[Direction] = ()
    ) -> None:
        self._options = options
        language = options.source_language if options.split_sentences else None
        answers = Answers(translator, language)
        self._inputs = answers.inputs
        self._directions = directions
        translate = {direction.name: direction.translate for direction in directions}
        functions = answers.signatures | translate
        self._queue = RequestQueue(functions, default_workers(), options.max_batch_size)
        self._open_requests = 0
        self._is_draining = False
        page = resources.files("t2t_repro.serving").joinpath("page.html").read_text("utf-8")
        self._page = page.replace("{{model}}", options.model_name)

    async def serve(self) -> None:
        """Serves until SIGTERM or SIGINT, then finishes the requests that were received."""
        options, loop, has_to_end = self._options, asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, has_to_end.set)
        runner = web.AppRunner(
            self.application(), access_log=None, handler_cancellation=True, shutdown_timeout=1
        )
        await runner.setup()
        await web.TCPSite(runner, options.host, options.rest_port).start()
        host, port = runner.addresses[0][:2]
        logging.info("serving at http://%s:%d/", f"[{host}]" if ":" in host else host, port)
        await has_to_end.wait()
        logging.info("ending: %d requests to finish", self._open_requests)
        self._is_draining = True
        deadline = loop.time() + options.drain_seconds
        while self._open_requests and loop.time() < deadline:
            await asyncio.sleep(0.02)
        await runner.cleanup()
        if self._queue.is_busy:
            logging.warning("not finished within --drain_seconds=%g", options.drain_seconds)
            # TensorFlow cannot be interrupted, and Python would wait for its threads.
            os._exit(0)

    def application(self) -> web.Application:
        """Returns the routes, with the limit on the size of requests."""
        application = web.Application(
            middlewares=[self._guard],
            client_max_size=int(self._options.max_request_mb * 2**20),
        )
        model = f"/v1/models/{self._options.model_name}"
        predict = self._answering(web.Request.read, self._predict)
        translate = self._answering(_read_document, self._translate)
        state = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": state}
        status = _always({"model_version_status": [version]})
        most, needs_key = self._options.max_characters, bool(self._options.api_key)
        settings = _always(frontend_settings(self._directions, most, needs_key))
        routes = [web.get("/", self._show_page), web.get("/health", _always({"status": "ok"}))]
        for path in (model, f"{model}/versions/1"):
            routes += [web.post(f"{path}:predict", predict), web.get(path, status)]
        known = _always(languages(self._directions))
        routes += [web.post("/translate", translate), web.get("/languages", known)]
        application.add_routes([*routes, web.get("/frontend/settings", settings)])
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuses requests while draining or from other sites, and answers errors in JSON."""
        try:
            if self._is_draining:
                raise web.HTTPServiceUnavailable(text="the server is ending")
            self._check_host(request.headers.get("Host", "localhost"))
            return await handler(request)
        except UserError as error:
            status, message = 400, str(error)
        except web.HTTPNotFound:
            paths = ", ".join(path.canonical for path in request.app.router.resources())
            status, message = 404, f"{request.path} is not found, expected one of {paths}"
        except web.HTTPException as error:
            status, message = error.status, error.text or error.reason
        except Exception:
            logging.exception("%s %s failed", request.method, request.path)
            status, message = 500, "the server failed; see its log"
        return web.json_response({"error": message}, status=status)

    def _check_host(self, host: str) -> None:
        """Checks the name by which a client calls the server.

        A page of another site could let its own name lead to this machine, and read all answers
        (DNS rebinding). Addresses are safe: no other site has them for a name.
        """
        name = None
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname
            # On all addresses, the server may be called by any of them.
            address = ipaddress.ip_address(name or "")
            if address.is_loopback or ipaddress.ip_address(self._options.host).is_unspecified:
                return
        if name not in ("localhost", self._options.host, *self._options.allowed_host):
            raise web.HTTPMisdirectedRequest(
                text=f"Host is {host[:80]}, expected this machine or a name of --allowed_host"
            )

    def _answering(self, read: _Read, answer: Callable[[Any], Awaitable[web.Response]]) -> _Handler:
        """Returns a handler of requests that are counted, and have to arrive in time."""
        options = self._options

        async def handle(request: web.Request) -> web.Response:
            if self._open_requests >= (most := options.max_waiting):
                raise web.HTTPTooManyRequests(text=f"{most} requests are waiting: try again later")
            self._open_requests += 1
            try:
                async with asyncio.timeout(options.client_seconds):
                    received = await read(request)
                return await answer(received)
            except TimeoutError as error:
                seconds = options.client_seconds
                raise web.HTTPRequestTimeout(text=f"no whole request in {seconds:g} s") from error
            finally:
                self._open_requests -= 1

        return handle

    async def _predict(self, body: bytes) -> web.Response:
        if self._options.api_key:
            raise web.HTTPForbidden(text="with an API key, only /translate is served")
        most = self._options.max_batch_size
        signature, columns, in_rows = read_request(body, self._inputs, most)
        outputs = await self._queue.answer(signature, columns)
        return web.json_response(body=write_answer(outputs, in_rows))

    async def _translate(self, document: dict[str, Any]) -> web.Response:
        options = self._options
        key = str(document.get("api_key") or "").encode(errors="replace")
        if options.api_key and not compare_digest(key, options.api_key.encode()):
            raise web.HTTPForbidden(text="api_key is wrong or missing")
        most = options.max_batch_size, options.max_characters
        query = Query(document, self._directions, *most)
        sources = query.sources()
        outputs = await self._queue.answer(query.direction.name, {"source": sources})
        found = dict(zip(sources, outputs["translations"], strict=True))
        return web.json_response(query.answer(found))

    async def _show_page(self, request: web.Request) -> web.Response:
        return web.Response(text=self._page, content_type="text/html")


def _always(answer: Any) -> _Handler:
    """Returns a handler that gives every request the same answer."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer)

    return handle


async def _read_document(request: web.Request) -> dict[str, Any]:
    """Reads JSON or a form; a name that a form has several times is a list."""
    if request.content_type not in _FORMS:
        return read_json(await request.read())
    try:
        fields = await request.post()
    except (ValueError, LookupError, BadHttpMessage) as error:
        raise UserError(f"the body is not a form: {reason_of(error)}") from error
    values = ((name, fields.getall(name)) for name in fields)
    return {name: some[0] if len(some) == 1 else some for name, some in values}
