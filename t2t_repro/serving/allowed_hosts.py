"""By which names a server lets itself be called.

A page of another site can have its own name lead to this machine, once it is loaded (DNS
rebinding), and then read all answers. The name that it called is in the request.
"""

import ipaddress
import re
from collections.abc import Iterable

from aiohttp import web

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]*)(?::\d*)?")


class AllowedHosts:
    """The names of this machine for itself, the one it listens at, and those that are given.

    Args:
        listens_at: the address that the server listens at. Where that is all addresses, it may be
            called by any address: which no other site has a name for.
        given: other names, of the network or of a proxy.
    """

    def __init__(self, listens_at: str, given: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in ("localhost", listens_at, *given)}
        address = _address(listens_at)
        self._is_any_address = address is not None and address.is_unspecified

    def check(self, host: str | None) -> None:
        """Makes sure that a request may name the server so.

        Args:
            host: what its header says; None where it has none, as no browser's.

        Raises:
            HTTPMisdirectedRequest: it may not.
        """
        if host is None:
            return
        found = _HOST.fullmatch(host.lower())
        name = found[1].strip("[]").removesuffix(".") if found else ""
        address = _address(name)
        is_allowed = name in self._names or (
            address is not None and (self._is_any_address or address.is_loopback)
        )
        if not is_allowed:
            raise web.HTTPMisdirectedRequest(
                text=f"Host is {host[:80]}, expected this machine: start the server with "
                "--allowed_host to be called by another name"
            )


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
