"""Machines of their own for workers: network namespaces on one switch, whose cables can be cut.

Needs Linux, iproute2 and the rights to make namespaces (root has them).
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from tests.faults.system_calls import system_call

_CARD = "eth0"
_PORT = 2222
_NAMES = Path("/run/netns")  # Where iproute2 keeps them.


class Network:
    """So many machines, 10.77.0.1 and on; they are gone when the context ends.

    Attributes:
        addresses: host:port for a worker on each machine.
    """

    def __init__(self, count: int) -> None:
        self._switch = f"t2t-{os.getpid()}-switch"
        self._machines = [f"t2t-{os.getpid()}-{index}" for index in range(count)]
        self.addresses = [f"10.77.0.{index + 1}:{_PORT}" for index in range(count)]

    def __enter__(self) -> "Network":
        try:
            _ip("netns", "add", self._switch)
            self._on_switch("link", "add", "bridge", "type", "bridge")
            self._on_switch("link", "set", "bridge", "up")
            for index, machine in enumerate(self._machines):
                self._add(index, machine)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in (*self._machines, self._switch):
            if (_NAMES / name).exists():
                _ip("netns", "delete", name)

    def _add(self, index: int, machine: str) -> None:
        host = self.addresses[index].split(":")[0]
        cable = ("type", "veth", "peer", "name", _CARD, "netns", machine)
        _ip("netns", "add", machine)
        self._on_switch("link", "add", f"port{index}", *cable)
        self._on_switch("link", "set", f"port{index}", "master", "bridge", "up")
        _ip("-n", machine, "addr", "add", f"{host}/24", "dev", _CARD)
        for card in (_CARD, "lo"):
            _ip("-n", machine, "link", "set", card, "up")

    def move_to(self, index: int) -> None:
        """Puts this process, which must have one thread only, on a machine.

        Raises:
            OSError: it is not permitted.
        """
        with open(_NAMES / self._machines[index], "rb") as name:
            system_call("setns", name.fileno(), 0)

    def cut(self, index: int) -> None:
        """Cuts the cable of a machine; what is sent is lost, and nobody is told."""
        self._on_switch("link", "set", f"port{index}", "nomaster")

    def mend(self) -> None:
        """Mends all cables."""
        for index in range(len(self._machines)):
            self._on_switch("link", "set", f"port{index}", "master", "bridge")

    def _on_switch(self, *arguments: str) -> None:
        _ip("-n", self._switch, *arguments)


def can_be_made() -> bool:
    """Whether this process may make machines."""
    if not shutil.which("ip"):
        return False
    with contextlib.suppress(subprocess.CalledProcessError), Network(1):
        return True
    return False


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
