"""A server for one machine: TensorFlow Serving's REST interface on a `Translator`, and a page."""

import asyncio
import ipaddress
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib import resources
from typing import NamedTuple
from urllib.parse import urlsplit

from absl import logging
from aiohttp import web

from t2t_repro.decoding.batch_plan import default_workers
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.serving.answers import Answers
from t2t_repro.serving.predict import RequestError, read_request, write_answer
from t2t_repro.serving.request_queue import RequestQueue

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


class Server:
    """Answers requests over HTTP.

    Args:
        translator: called by several threads, so it should have one worker.
        options: addresses and limits.
    """

    def __init__(self, translator: Translator, options: Options) -> None:
        self._options = options
        language = options.source_language if options.split_sentences else None
        self._answers = Answers(translator, language)
        self._queue = RequestQueue(self._answers, default_workers(), options.max_batch_size)
        self._open_requests = 0
        self._is_draining = False
        page = resources.files("t2t_repro.serving").joinpath("page.html").read_text("utf-8")
        self._page = page.replace("{{model}}", options.model_name)

    async def serve(self) -> None:
        """Serves until SIGTERM or SIGINT, then finishes the requests that were received.

        Raises:
            UserError: the port cannot be opened.
        """
        options, loop, has_to_end = self._options, asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, has_to_end.set)
        runner = web.AppRunner(
            self.application(), access_log=None, handler_cancellation=True, shutdown_timeout=1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, options.host, options.rest_port).start()
        except OSError as error:
            raise UserError(
                f"--host={options.host} --rest_port={options.rest_port}: {error.strerror}; "
                "expected an address of this machine, such as 127.0.0.1, and a free port."
            ) from error
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
        application.add_routes([web.get("/", self._show_page), web.get("/health", self._health)])
        for path in (model, f"{model}/versions/1"):
            application.add_routes(
                [web.post(f"{path}:predict", self._predict), web.get(path, self._status)]
            )
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
            path = f"/v1/models/{self._options.model_name}"
            status, message = 404, f"{request.path} is not found, expected {path}"
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

    async def _predict(self, request: web.Request) -> web.Response:
        options = self._options
        if self._open_requests >= options.max_waiting:
            raise RequestError(429, f"{options.max_waiting} requests are waiting: try again later")
        self._open_requests += 1
        try:
            async with asyncio.timeout(options.client_seconds):
                body = await request.read()
            asked = read_request(body, self._answers.inputs, options.max_batch_size)
            outputs = await self._queue.answer(asked)
            return web.json_response(body=write_answer(outputs, asked.in_rows))
        except TimeoutError as error:
            raise RequestError(408, f"no whole request in {options.client_seconds:g} s") from error
        finally:
            self._open_requests -= 1

    async def _status(self, request: web.Request) -> web.Response:
        status = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": status}
        return web.json_response({"model_version_status": [version]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _show_page(self, request: web.Request) -> web.Response:
        return web.Response(text=self._page, content_type="text/html")
