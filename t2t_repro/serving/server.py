"""A server for one machine: TensorFlow Serving's REST interface, LibreTranslate's, and a page."""

import asyncio
import ipaddress
import os
import signal
from collections import ChainMap
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from hmac import compare_digest
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from absl import logging
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from t2t_repro.config.values import short
from t2t_repro.decoding.batch_plan import default_workers
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError, reason_of
from t2t_repro.serving.answers import Answers
from t2t_repro.serving.libretranslate import Direction, frontend_settings, languages, read_query
from t2t_repro.serving.predict import (
    Columns,
    Request,
    RequestError,
    read_json,
    read_request,
    write_answer,
)
from t2t_repro.serving.request_queue import RequestQueue

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_Read = Callable[[web.Request], Awaitable[Any]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Options(NamedTuple):
    """The options of a server, by the names of the verb's flags.

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
    split_sentences: bool = False
    source_language: str = "en"
    max_characters: int = 50_000
    api_key: str | None = None


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
        self._answers = Answers(translator, language)
        self._directions = directions
        of_directions = {one.name: one.translate for one in directions}
        functions = ChainMap[str, Callable[..., Columns]](self._answers.signatures, of_directions)
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
        routes = [web.get("/", self._show_page), web.get("/health", self._health)]
        for path in (model, f"{model}/versions/1"):
            routes += [web.post(f"{path}:predict", predict), web.get(path, self._status)]
        routes += [web.post("/translate", translate), web.get("/languages", self._languages)]
        application.add_routes([*routes, web.get("/frontend/settings", self._settings)])
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuses requests while draining or from other sites, and answers errors in JSON."""
        try:
            if self._is_draining:
                raise RequestError(503, "the server is ending")
            self._check_host(request.headers.get("Host", "localhost"))
            return await handler(request)
        except RequestError as error:
            status, message = error.status, str(error)
        except UserError as error:
            status, message = 400, str(error)
        except web.HTTPNotFound:
            paths = ", ".join(one.canonical for one in request.app.router.resources())
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
            raise RequestError(
                421, f"Host is {host[:80]}, expected this machine or a name of --allowed_host"
            )

    def _answering(self, read: _Read, answer: Callable[[Any], Awaitable[web.Response]]) -> _Handler:
        """Returns a handler of requests that are counted, and have to arrive in time."""
        options = self._options

        async def handle(request: web.Request) -> web.Response:
            if self._open_requests >= (most := options.max_waiting):
                raise RequestError(429, f"{most} requests are waiting: try again later")
            self._open_requests += 1
            try:
                async with asyncio.timeout(options.client_seconds):
                    received = await read(request)
                return await answer(received)
            except TimeoutError as error:
                seconds = options.client_seconds
                raise RequestError(408, f"no whole request in {seconds:g} s") from error
            finally:
                self._open_requests -= 1

        return handle

    async def _predict(self, body: bytes) -> web.Response:
        if self._options.api_key:
            raise RequestError(403, "with an API key, only /translate is served")
        asked = read_request(body, self._answers.inputs, self._options.max_batch_size)
        outputs = await self._queue.answer(asked)
        return web.json_response(body=write_answer(outputs, asked.in_rows))

    async def _translate(self, document: Any) -> web.Response:
        options = self._options
        if not isinstance(document, dict):
            raise RequestError(400, f"received {short(document)}, expected an object with q")
        key = str(document.get("api_key") or "").encode(errors="replace")
        if options.api_key and not compare_digest(key, options.api_key.encode()):
            raise RequestError(403, "api_key is wrong or missing")
        most = options.max_batch_size, options.max_characters
        query = read_query(document, self._directions, *most)
        sources = query.sources()
        request = Request(query.direction.name, {"source": sources}, len(sources), False)
        found = (await self._queue.answer(request))["translations"] if sources else []
        return web.json_response(query.answer(dict(zip(sources, found, strict=True))))

    async def _languages(self, request: web.Request) -> web.Response:
        return web.json_response(languages(self._directions))

    async def _settings(self, request: web.Request) -> web.Response:
        most, needs_key = self._options.max_characters, bool(self._options.api_key)
        return web.json_response(frontend_settings(self._directions, most, needs_key))

    async def _status(self, request: web.Request) -> web.Response:
        status = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": status}
        return web.json_response({"model_version_status": [version]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _show_page(self, request: web.Request) -> web.Response:
        return web.Response(text=self._page, content_type="text/html")


async def _read_document(request: web.Request) -> Any:
    """Reads JSON or a form; a name that a form has several times is a list.

    Raises:
        RequestError: 400, the body is neither.
    """
    if request.content_type not in _FORMS:
        return read_json(await request.read())
    try:
        fields = await request.post()
    except (ValueError, LookupError, BadHttpMessage) as error:
        raise RequestError(400, f"the body is not a form: {reason_of(error)}") from error
    values = ((name, fields.getall(name)) for name in fields)
    return {name: some[0] if len(some) == 1 else some for name, some in values}
