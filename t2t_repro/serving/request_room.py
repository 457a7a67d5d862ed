"""How much a server takes in at a time."""

from collections.abc import Callable, Iterator
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
    def of_one(self) -> Iterator[Callable[[int], None]]:
        """Holds the room of a request.

        Yields:
            a function that takes room for so many bytes more, once they are there: what is only
            announced keeps nobody out.

        Raises:
            RequestError: there is none left. So does the function.
        """
        if self._requests < 1:
            raise _full()
        self._requests -= 1
        held = 0

        def take(size: int) -> None:
            nonlocal held
            if self._bytes < size:
                raise _full()
            self._bytes -= size
            held += size

        try:
            yield take
        finally:
            self._requests += 1
            self._bytes += held


def _full() -> RequestError:
    return RequestError(
        grpc.StatusCode.UNAVAILABLE, "too many requests are waiting: try again later"
    )
