"""What a model's process answers, to TensorFlow Serving's REST and gRPC alike."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from tensorflow_serving.apis.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
)
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from t2t_repro.serving.asked import Asked
from t2t_repro.serving.loaded_model import LoadedModel
from t2t_repro.serving.model_status import status_of
from t2t_repro.serving.predict import read_request, write_answer
from t2t_repro.serving.proto_tensors import (
    chosen_outputs,
    read_inputs,
    read_message,
    write_outputs,
)
from t2t_repro.serving.request_error import RequestError, invalid
from t2t_repro.serving.request_queue import RequestQueue
from t2t_repro.serving.signature import RequestLimits


class Answers:
    """Answers requests to one version of a model.

    Args:
        model: the version.
        name: of the model, as clients give it.
        number: of the version.
        queue: where predictions wait.
        limits: of a request.

    Attributes:
        calls: what can be asked, by name.
    """

    def __init__(
        self,
        model: LoadedModel,
        name: str,
        number: int,
        queue: RequestQueue,
        limits: RequestLimits,
    ) -> None:
        self._model = model
        self._name = name
        self._number = number
        self._queue = queue
        self._limits = limits
        self.calls: dict[str, Callable[[Asked, bytes], Awaitable[bytes]]] = {
            "rest_predict": self._rest_predict,
            "rest_status": self._rest_status,
            "rest_metadata": self._rest_metadata,
            "grpc_predict": self._grpc_predict,
            "grpc_status": self._grpc_status,
            "grpc_metadata": self._grpc_metadata,
        }

    async def _rest_predict(self, asked: Asked, body: bytes) -> bytes:
        self._check_served(asked.name, asked.version)
        request = read_request(body, self._model.signature, self._limits)
        outputs = await self._queue.answer(request.signature, request.inputs)
        return _json(write_answer(outputs, request.in_rows))

    async def _grpc_predict(self, asked: Asked, body: bytes) -> bytes:
        request = read_message(PredictRequest, body)
        self._check_served(request.model_spec.name, _version(request.model_spec))
        signature = self._model.signature(request.model_spec.signature_name)
        chosen = chosen_outputs(request, signature)
        inputs = read_inputs(request, signature, self._limits)
        outputs = await self._queue.answer(signature, inputs)
        response = PredictResponse(model_spec=self._spec(signature.name))
        write_outputs(response, signature, outputs, chosen)
        return response.SerializeToString()

    async def _rest_status(self, asked: Asked, body: bytes) -> bytes:
        return _json(_as_json(self._status(asked.name, asked.version, asked.refused)))

    async def _grpc_status(self, asked: Asked, body: bytes) -> bytes:
        spec = read_message(GetModelStatusRequest, body).model_spec
        return self._status(spec.name, _version(spec), asked.refused).SerializeToString()

    async def _rest_metadata(self, asked: Asked, body: bytes) -> bytes:
        self._check_served(asked.name, asked.version)
        metadata = {"signature_def": _as_json(self._model.metadata)}
        # As JSON has a message's int64.
        spec = {"name": self._name, "signature_name": "", "version": str(self._number)}
        return _json({"model_spec": spec, "metadata": metadata})

    async def _grpc_metadata(self, asked: Asked, body: bytes) -> bytes:
        request = read_message(GetModelMetadataRequest, body)
        self._check_served(request.model_spec.name, _version(request.model_spec))
        if list(request.metadata_field[:2]) != ["signature_def"]:
            raise invalid(
                f"Metadata field {list(request.metadata_field[:2])} is not supported, "
                "expected ['signature_def']"
            )
        response = GetModelMetadataResponse(model_spec=self._spec(""))
        response.metadata["signature_def"].Pack(self._model.metadata)
        return response.SerializeToString()

    def _status(self, name: str, version: int | None, refused: Mapping[int, str]) -> Message:
        if name != self._name:
            raise _not_found(f"Could not find any versions of model {name}")
        return status_of(name, self._number, refused, version)

    def _check_served(self, name: str, version: int | None) -> None:
        """Raises a RequestError where another model or version is asked for."""
        if name != self._name or version not in (None, self._number):
            asked = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise _not_found(f"Servable not found for request: {asked}")

    def _spec(self, signature: str) -> ModelSpec:
        spec = ModelSpec(name=self._name, signature_name=signature)
        spec.version.value = self._number
        return spec


def _version(spec: ModelSpec) -> int | None:
    if spec.version_label:
        raise invalid(f"Unrecognized servable version label: {spec.version_label}")
    return spec.version.value if spec.HasField("version") else None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _as_json(message: Message) -> dict[str, Any]:
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _not_found(message: str) -> RequestError:
    return RequestError(grpc.StatusCode.NOT_FOUND, message)
