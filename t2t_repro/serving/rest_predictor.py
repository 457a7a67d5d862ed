"""Requests over TensorFlow Serving's REST."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import urllib3
from urllib3 import exceptions

from t2t_repro.errors import UserError
from t2t_repro.serving.remote_translator import (
    Address,
    TryAgainError,
    no_server,
    not_served,
    too_slow,
)

_NOT_REACHED = (
    exceptions.NewConnectionError,
    exceptions.ConnectTimeoutError,
    exceptions.ProtocolError,
)
_BUSY = (429, 502, 503)
"""What a server answers that has too much to do, or a proxy whose server is not there."""


class RestPredictor:
    """Makes requests over REST.

    Args:
        address: of the model.
        connections: how many are kept open.
    """

    def __init__(self, address: Address, connections: int) -> None:
        self._address = address
        timeout = urllib3.Timeout(connect=min(address.timeout, 10.0), read=address.timeout)
        self._pool = urllib3.PoolManager(maxsize=connections, retries=False, timeout=timeout)
        server = address.server if "://" in address.server else f"http://{address.server}"
        version = "" if address.version is None else f"/versions/{address.version}"
        self._url = f"{server.rstrip('/')}/v1/models/{address.model_name}{version}:predict"

    def predict(self, signature: str, sentences: Sequence[str]) -> Mapping[str, Sequence[Any]]:
        """As `Predictor` has it."""
        request = {"signature_name": signature, "inputs": {"source": list(sentences)}}
        try:
            response = self._pool.request("POST", self._url, json=request)
        except exceptions.ReadTimeoutError as error:
            raise too_slow(self._address) from error
        except _NOT_REACHED as error:
            raise no_server(self._address, error) from error
        except exceptions.HTTPError as error:
            raise UserError(f"--server={self._address.server}: {error}") from error
        return _outputs(self._address, response.status, response.data)


def _outputs(address: Address, status: int, body: bytes) -> Mapping[str, Sequence[Any]]:
    """The outputs that an answer holds."""
    server = address.server
    kind = TryAgainError if status in _BUSY else UserError
    try:
        document = json.loads(body)
        found = document["outputs" if status == 200 else "error"]
    except (ValueError, LookupError, TypeError) as error:
        raise kind(
            f"--server={server} answered with status {status} and no JSON of TensorFlow Serving's "
            "REST interface: is it the right port?"
        ) from error
    if status == 200 and isinstance(found, dict):
        return found
    if status == 404:
        raise not_served(address, " ".join(str(found).split()))
    raise kind(f"--server={server} answered with status {status}: {' '.join(str(found).split())}")
