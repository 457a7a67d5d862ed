"""Requests over TensorFlow Serving's gRPC. Its messages import all of TensorFlow: some seconds."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from t2t_repro.errors import UserError
from t2t_repro.serving.remote_translator import Address, no_server, not_served, too_slow


class GrpcPredictor:
    """Makes requests over gRPC.

    Args:
        address: of the model.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        unlimited = [("grpc.max_receive_message_length", -1)]
        self._stub = PredictionServiceStub(grpc.insecure_channel(address.server, unlimited))

    def predict(self, signature: str, sentences: Sequence[str]) -> Mapping[str, Sequence[Any]]:
        """As `Predictor` has it."""
        request = PredictRequest()
        request.model_spec.name = self._address.model_name
        request.model_spec.signature_name = signature
        if self._address.version is not None:
            request.model_spec.version.value = self._address.version
        request.inputs["source"].CopyFrom(
            tf.make_tensor_proto([sentence.encode() for sentence in sentences], tf.string)
        )
        try:
            response = self._stub.Predict(request, timeout=self._address.timeout)
        except grpc.RpcError as error:
            raise self._explained(error) from error
        return {name: _as_texts(tf.make_ndarray(value)) for name, value in response.outputs.items()}

    def _explained(self, error: Any) -> UserError:
        """What the status of a call means to a user."""
        code, details = error.code(), " ".join(error.details().split())
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return too_slow(self._address)
        # A server that stops cancels what it has not begun.
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            return no_server(self._address, details)
        if code == grpc.StatusCode.NOT_FOUND:
            return not_served(self._address, details)
        return UserError(f"--server={self._address.server} answered {code.name}: {details}")


def _as_texts(array: Any) -> list:
    """Nested lists; what is bytes becomes text."""
    if array.dtype != object:
        return array.tolist()
    return np.frompyfunc(lambda text: text.decode("utf-8", "replace"), 1, 1)(array).tolist()
