"""Why a request was not answered, in the terms of gRPC and of HTTP."""

import grpc

HTTP_STATUS = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
"""What TensorFlow Serving makes of each code over HTTP (http_server.cc); of the others, 500."""


class RequestError(Exception):
    """A request that cannot be answered; the server goes on.

    Args:
        code: which kind of failure.
        message: one line: what was received, what was expected.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def http_status(self) -> int:
        """The status of an answer over HTTP."""
        return HTTP_STATUS.get(self.code, 500)


def invalid(message: str) -> RequestError:
    """The error of a request that is wrong in itself."""
    return RequestError(grpc.StatusCode.INVALID_ARGUMENT, message)
