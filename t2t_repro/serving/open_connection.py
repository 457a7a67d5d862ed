"""Connections whose client has closed its sending half, and still waits for its answer.

A client that hangs up looks the same at first: TCP tells of both by the same bit. It is asked, by
an interim answer (102, RFC 9110 section 15.2): what has hung up rejects it, and its request is
called off; what waits passes over it.
"""

import asyncio
from typing import Any, cast

from aiohttp import web

from t2t_repro.serving.authority import authority

_PROBE = b"HTTP/1.1 102 Processing\r\n\r\n"
_PROBE_SECONDS = 0.5
_BEGIN_SECONDS = 0.1
"""After so long, what has arrived with the end is being handled."""


class OpenConnection(asyncio.Protocol):
    """Passes what happens to a connection on to aiohttp, but the end of the sending half.

    Args:
        inner: aiohttp's protocol of the connection.
    """

    def __init__(self, inner: asyncio.Protocol) -> None:
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._request: web.BaseRequest | None = None
        self._is_half_closed = False
        self._is_answering = False

    def begin(self, request: web.BaseRequest) -> None:
        """Says that a request is being handled."""
        self._request, self._is_answering = request, False

    def answer(self, response: web.StreamResponse) -> None:
        """Says that its response will now be sent: the last one, where no request can follow."""
        self._is_answering = True
        if self._is_half_closed:
            response.force_close()

    def end(self) -> None:
        """Says that it is handled."""
        self._request = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio calls it."""
        self._transport = cast(asyncio.Transport, transport)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio calls it."""
        self._transport = None
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""
        self._inner.data_received(data)

    def pause_writing(self) -> None:
        """As asyncio calls it."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """As asyncio calls it."""
        self._inner.resume_writing()

    def eof_received(self) -> bool:
        """Keeps the connection open for an answer."""
        self._is_half_closed = True
        asyncio.get_running_loop().call_later(_BEGIN_SECONDS, self._probe)
        return True

    def _probe(self) -> None:
        """Closes a connection that waits for nothing; asks another whether anybody is there."""
        if self._transport is None:
            return
        request = self._request
        # What is not there by now will never come.
        if request is None or not request.content.is_eof():
            self._transport.close()
            return
        # Clients of HTTP/1.0 take it for the answer.
        if not self._is_answering and request.version >= (1, 1):
            self._transport.write(_PROBE)
        asyncio.get_running_loop().call_later(_PROBE_SECONDS, self._probe)


class OpenSite(web.BaseSite):
    """Listens at an address; the connections are `OpenConnection`s.

    Args:
        runner: of the application.
        host: the address.
        port: its port; 0 for any that is free.
    """

    def __init__(self, runner: web.AppRunner, host: str, port: int) -> None:
        super().__init__(runner)
        self._address = host, port

    @property
    def name(self) -> str:
        """The address."""
        return f"http://{authority(*self._address)}"

    async def start(self) -> None:
        """Opens the port.

        Raises:
            OSError: it can't be opened.
        """
        await super().start()
        server: Any = self._runner.server
        host, port = self._address
        self._server = await asyncio.get_running_loop().create_server(
            lambda: OpenConnection(server()), host, port
        )
