"""How much a server takes in at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from t2t_repro.serving.request_error import RequestError


class RequestRoom:
    """Requests that are received, waiting or computed; what is beyond the limits is refused.

    Args:
        requests: how many may be there at a time.
        size: how many bytes of them.
    """

    def __init__(self, requests: int, size: int) -> None:
        self._requests = requests
        self._bytes = size

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Holds the room of a request of so many bytes.

        Raises:
            RequestError: there is none left.
        """
        if self._requests < 1 or self._bytes < size:
            raise RequestError(
                grpc.StatusCode.UNAVAILABLE, "too many requests are waiting: try again later"
            )
        self._requests -= 1
        self._bytes -= size
        try:
            yield
        finally:
            self._requests += 1
            self._bytes += size
