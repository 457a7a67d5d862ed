"""A server for one machine: TensorFlow Serving's REST interface, LibreTranslate's, and a page."""

import asyncio
import ipaddress
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from importlib import resources
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from absl import logging
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from t2t_repro.decoding.engine import Engine
from t2t_repro.errors import UserError, printable, reason_of
from t2t_repro.serving.libretranslate import Direction, Query, fixed_answers, read_document
from t2t_repro.serving.predict import Answers, RequestQueue, read_request, write_answer

_SIZE = web.RequestKey("size", str)
_Endpoint = Callable[[web.Request, bytes], Awaitable[web.Response]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Options(NamedTuple):
    """The options of a server, by the names of the command's flags.

    Attributes:
        model_name: the name of the model in URLs.
        host: the address to listen on.
        allowed_host: names of the server in requests, besides `host` and "localhost".
        allowed_origin: sites whose pages may send requests, such as "https://page.example"; "*" for
            all.
        rest_port: the port to listen on; 0 for any free one.
        max_request_mb: the most MiB of a request.
        client_seconds: the most seconds for a client to send a request's headers, and its body.
        max_batch_size: the most texts of a request, and the most rows (lines, pieces of HTML) of
            requests that are joined.
        max_waiting: the most requests that are open at a time.
        drain_seconds: the most seconds to finish requests after SIGTERM.
        split_sentences: whether texts are translated sentence by sentence.
        source_language: the code of the language whose rules split them.
        max_characters: the most characters of a request in LibreTranslate's protocol.
        api_key: the key that requests for translations need; None if they need none.
    """

    model_name: str
    host: str
    allowed_host: Sequence[str]
    allowed_origin: Sequence[str]
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
        engine: called by several threads at a time, so its own `workers` should be 1.
        options: addresses and limits.
        directions: the directions served in LibreTranslate's protocol.
        workers: the number of threads that call the engine.
    """

    def __init__(
        self, engine: Engine, options: Options, directions: Sequence[Direction], workers: int
    ) -> None:
        self._options = options
        answers = Answers(engine, options.source_language if options.split_sentences else None)
        self._inputs = answers.inputs
        self._directions = directions
        # In the queue, a direction such as "en-de" is one more signature, and with alternatives
        # another: "en-de nbest" translates in all ranks of the beam.
        functions = answers.signatures | {d.name: d.translate for d in directions}
        for d in directions:
            functions[f"{d.name} nbest"] = partial(d.translate, n_best=d.engine.beam_size)
        self._queue = RequestQueue(functions, workers, options.max_batch_size)
        self._open_requests = 0
        self._is_draining = False

    async def serve(self) -> None:
        """Serves until SIGTERM or SIGINT, then finishes the requests that were received.

        If these take longer than `drain_seconds`, the process is ended.

        Raises:
            UserError: the port cannot be used.
        """
        loop = asyncio.get_running_loop()
        has_to_end = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, has_to_end.set)
        runner = web.AppRunner(self.application(), handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        listening = await self._listen(cast(web.Server, runner.server))
        await has_to_end.wait()
        logging.info("ending: %d requests to finish", self._open_requests)
        # New requests are refused with 503.
        self._is_draining = True
        deadline = loop.time() + self._options.drain_seconds
        while self._open_requests and loop.time() < deadline:
            await asyncio.sleep(0.02)
        listening.close()
        await runner.cleanup()
        if self._queue.is_busy:
            logging.warning("not finished within --drain_seconds=%g", self._options.drain_seconds)
            # TensorFlow cannot be interrupted, and Python would wait for its threads.
            os._exit(0)

    async def _listen(self, server: web.Server) -> asyncio.Server:
        """Opens the port, where `server` then answers the requests, and logs the address.

        TCPSite, aiohttp's own class for this, would make no `_Connection`.

        Raises:
            UserError: another program took the port since the command looked.
        """
        loop = asyncio.get_running_loop()
        # Clients of LibreTranslate send texts in URLs: these may be long, and must not be logged.
        http: dict[str, Any] = {"auto_decompress": False, "access_log": None}
        http |= {"keepalive_timeout": self._options.client_seconds, "max_line_size": 2**16}
        connect = partial(_Connection, server, loop=loop, **http)
        port = self._options.rest_port
        try:
            listening = await loop.create_server(connect, self._options.host, port)
        except OSError as error:
            raise UserError(f"--rest_port={port} cannot be used: {reason_of(error)}.") from error
        # An address of IPv6 has two more items. The port is another one if the option is 0.
        host, port = listening.sockets[0].getsockname()[:2]
        logging.info("serving at http://%s:%d/", f"[{host}]" if ":" in host else host, port)
        return listening

    def application(self) -> web.Application:
        """Returns the aiohttp application with all routes."""
        options = self._options
        max_bytes = int(options.max_request_mb * 2**20)
        application = web.Application(middlewares=[self._guard], client_max_size=max_bytes)
        model_paths = [f"/v1/models/{options.model_name}{end}" for end in ("", "/versions/1")]
        status = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": status}
        answers = fixed_answers(self._directions, options.max_characters, bool(options.api_key))
        answers |= {path: {"model_version_status": [version]} for path in model_paths}
        answers["/health"] = {"status": "ok"}
        endpoints = {f"{path}:predict": self._predict for path in model_paths}
        endpoints["/translate"] = self._translate
        routes = [web.get(path, partial(_always, answer)) for path, answer in answers.items()]
        routes += [web.post(path, partial(self._handle, call)) for path, call in endpoints.items()]
        application.add_routes([*routes, web.get("/", self._show_page)])
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answers a request, with CORS headers for allowed sites, and logs it.

        The log says "no answer" if the client hangs up before.
        """
        began = time.monotonic()
        status = "no answer"
        try:
            response = await self._answer(request, handler)
            status = str(response.status)
            origin = request.headers.get("Origin", "")
            # Browsers send no "/" at its end, but people write one.
            if {"*", origin, f"{origin}/"} & {*map(str.lower, self._options.allowed_origin)}:
                response.headers["Access-Control-Allow-Origin"] = origin or "*"
                response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
                response.headers["Vary"] = "Origin"
            return response
        finally:
            # Without the query, even after an encoded "?": it may hold the text and the key.
            path = re.sub("(?i)%3f.*", "", printable(request.rel_url.raw_path))[:80]
            took = f"{(time.monotonic() - began) * 1000:.0f} ms{request.get(_SIZE, '')}"
            logging.info("%s %s %s, %s", request.method[:20], path, status, took)

    async def _answer(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Calls the handler; returns its response, or an error in JSON.

        Requests are refused while the server drains, or if they have another server's name. If
        origins are allowed, OPTIONS, by which browsers ask for CORS headers, needs no handler.
        """
        try:
            if self._is_draining:
                raise web.HTTPServiceUnavailable(text="the server is ending: try again later")
            self._check_host(request.headers.get("Host", "localhost"))
            if request.method == "OPTIONS" and self._options.allowed_origin:
                return web.Response(status=204)
            return await handler(request)
        except UserError as error:
            status, message = 400, str(error)
        except web.RequestPayloadError:
            status, message = 400, "the body ends early or is malformed"
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
        """Refuses a request (421) whose header `Host` does not name this server.

        Another site could make its own name lead to this machine, and its pages could then read all
        answers (DNS rebinding). IP addresses are safe: they cannot be another site's name.
        """
        own_names = ("localhost", self._options.host, *self._options.allowed_host)
        # A malformed host, for which `urlsplit` raises a ValueError, names no server.
        with suppress(ValueError):
            # In lower case, whatever the client wrote.
            name = urlsplit(f"//{host}").hostname
            if name and (name in map(str.lower, own_names) or self._is_own_address(name)):
                return
        problem = f"Host is {host[:80]}, expected this machine or a name of --allowed_host"
        raise web.HTTPMisdirectedRequest(text=problem)

    def _is_own_address(self, name: str) -> bool:
        """Returns whether a host is an IP address, not a name, that may be this server's.

        A loopback address may; any address may if the server listens on all.
        """
        # A ValueError: one of the two is a name.
        with suppress(ValueError):
            address = ipaddress.ip_address(name)
            return address.is_loopback or ipaddress.ip_address(self._options.host).is_unspecified
        return False

    async def _handle(self, endpoint: _Endpoint, request: web.Request) -> web.Response:
        """Reads the body of a request, and lets the endpoint answer it.

        Refuses a request if too many are open (429), or if its body is compressed (415).
        """
        most = self._options.max_waiting
        if self._open_requests >= most:
            raise web.HTTPTooManyRequests(text=f"{most} requests are waiting: try again later")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            # A small body can inflate to gigabytes.
            raise web.HTTPUnsupportedMediaType(text="expected a body that is not compressed")
        self._open_requests += 1
        try:
            return await endpoint(request, await self._read_body(request))
        finally:
            self._open_requests -= 1

    async def _read_body(self, request: web.Request) -> bytes:
        """Returns the body of a request; refuses it (408) if the client takes too long."""
        seconds = self._options.client_seconds
        try:
            async with asyncio.timeout(seconds):
                return await request.read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text=f"request incomplete in {seconds:g} s") from error

    async def _predict(self, request: web.Request, body: bytes) -> web.Response:
        """Answers a request in TensorFlow Serving's protocol."""
        self._check_key(request)
        signature, columns, in_rows = read_request(body, self._inputs, self._options.max_batch_size)
        _note_size(request, *columns.values())
        outputs = await self._queue.answer(signature, columns)
        return web.json_response(body=write_answer(outputs, in_rows))

    async def _translate(self, request: web.Request, body: bytes) -> web.Response:
        """Answers a request in LibreTranslate's protocol."""
        options = self._options
        content_type = request.headers.get("Content-Type", "")
        document = read_document(body, content_type, request.rel_url.raw_query_string)
        self._check_key(request, document.get("api_key"))
        query = Query(document, self._directions, options.max_batch_size, options.max_characters)
        _note_size(request, query.texts)
        sources = query.sources()
        outputs = await self._queue.answer(query.signature, {"source": sources})
        translations = dict(zip(sources, outputs["translations"], strict=True))
        return web.json_response(query.answer(translations))

    def _check_key(self, request: web.Request, given: Any = None) -> None:
        """Refuses a request (403) that does not have the server's key, if the server has one.

        Args:
            request: may have the key in its header `Authorization`.
            given: the field of the key, which counts before the header; None without one.
        """
        key = self._options.api_key
        in_header = re.sub("(?i)^bearer +", "", request.headers.get("Authorization", ""))
        sent = str(given or in_header).encode(errors="replace")
        # `==` would take longer for a longer equal start, from which the key can be guessed.
        if key and not compare_digest(sent, key.encode()):
            raise web.HTTPForbidden(text="api_key or 'Authorization: Bearer' is wrong or missing")

    async def _show_page(self, request: web.Request) -> web.Response:
        """Answers with the page, which sends at most 16 lines at a time, to show progress."""
        page = resources.files("t2t_repro.serving").joinpath("page.html").read_text("utf-8")
        rows = str(min(16, self._options.max_batch_size))
        text = page.replace("{{model}}", self._options.model_name).replace("{{rows}}", rows)
        return web.Response(text=text, content_type="text/html")


async def _always(answer: Any, request: web.Request) -> web.StreamResponse:
    """Gives every request the same answer, in JSON."""
    return web.json_response(answer)


def _note_size(request: web.Request, *columns: Sequence[str]) -> None:
    """Stores the size of a request in it, for the log: the texts of its inputs, the columns."""
    characters = sum(len(text) for column in columns for text in column)
    request[_SIZE] = f", {len(columns[0])} texts, {characters} characters"


class _Connection(web.RequestHandler):
    """A connection that neither logs nor sends back malformed bytes, which may hold a key."""

    def handle_error(self, *args: Any, **named: Any) -> web.StreamResponse:
        """Answers bytes that are not HTTP with 400; other errors are answered by aiohttp."""
        # For these, aiohttp's own would log the bytes. The error is one of the arguments.
        if not any(isinstance(value, HttpProcessingError) for value in args):
            return super().handle_error(*args, **named)
        message = "the request is not HTTP/1.1, or its URL or headers are too long"
        return web.json_response({"error": message}, status=400)
