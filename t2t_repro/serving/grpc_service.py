"""TensorFlow Serving's PredictionService and ModelService, and gRPC's own health check."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import tensorflow as tf
from absl import logging
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from numpy.typing import NDArray
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc
from tensorflow_serving.apis.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
)
from tensorflow_serving.apis.get_model_status_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
)
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from t2t_repro.serving.model_status import status_of
from t2t_repro.serving.request_error import RequestError, invalid
from t2t_repro.serving.request_queue import RequestQueue
from t2t_repro.serving.served_versions import ServedVersion, ServedVersions


class GrpcService:
    """Answers over gRPC.

    Args:
        versions: what is served.
        queue: where requests wait.
        request_bytes: most bytes of a request.
    """

    def __init__(self, versions: ServedVersions, queue: RequestQueue, request_bytes: int) -> None:
        options = {
            "grpc.max_receive_message_length": request_bytes,
            # Two servers on one port would share its requests.
            "grpc.so_reuseport": 0,
        }
        self._server = grpc.aio.server(options=list(options.items()))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._predictions = _PredictionService(versions, queue, request_bytes)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            self._predictions, self._server
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            _ModelService(versions), self._server
        )

    async def start(self, host: str, port: int) -> int:
        """Opens the port, any free one for 0, and returns its number.

        Raises:
            RuntimeError: it can't be opened.
        """
        bound = self._server.add_insecure_port(f"{host}:{port}")
        await self._server.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        return bound

    async def refuse(self) -> None:
        """From now on every new request is answered with UNAVAILABLE."""
        self._predictions.is_closing = True
        await self._health.enter_graceful_shutdown()

    async def stop(self, seconds: float) -> None:
        """Closes the port and finishes the requests that were taken.

        Args:
            seconds: what is not answered by then is given up.
        """
        await self._server.stop(seconds)


class _PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predictions and metadata.

    Attributes:
        is_closing: whether predictions are refused. gRPC itself, when it stops, cancels what has
            arrived and has no answer under way, which tells nobody to ask another server.
    """

    def __init__(self, versions: ServedVersions, queue: RequestQueue, most_values: int) -> None:
        self.is_closing = False
        self._versions = versions
        self._queue = queue
        self._most_values = most_values

    async def Predict(
        self, request: PredictRequest, context: grpc.aio.ServicerContext
    ) -> PredictResponse:
        """Computes a signature's outputs."""
        async with _guarded(context):
            if self.is_closing:
                raise RequestError(grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            served = _served(self._versions, request.model_spec)
            signature = served.model.signature(request.model_spec.signature_name)
            unknown = set(request.output_filter) - signature.outputs.keys()
            if unknown:
                raise invalid(f"output tensor alias not found in signature: {min(unknown)}")
            inputs = {
                name: _array(name, tensor, self._most_values)
                for name, tensor in request.inputs.items()
            }
            outputs = await self._queue.answer(signature, inputs)
            response = PredictResponse(model_spec=_spec(self._versions, served, signature.name))
            for name in request.output_filter or outputs:
                dtype = signature.outputs[name].dtype
                response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name], dtype))
            return response

    async def GetModelMetadata(
        self, request: GetModelMetadataRequest, context: grpc.aio.ServicerContext
    ) -> GetModelMetadataResponse:
        """Describes the signatures."""
        async with _guarded(context):
            served = _served(self._versions, request.model_spec)
            if list(request.metadata_field) != ["signature_def"]:
                raise invalid(
                    f"Metadata field {list(request.metadata_field)} is not supported, "
                    "expected ['signature_def']"
                )
            response = GetModelMetadataResponse(model_spec=_spec(self._versions, served, ""))
            response.metadata["signature_def"].Pack(served.model.metadata)
            return response


class _ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """The state of versions."""

    def __init__(self, versions: ServedVersions) -> None:
        self._versions = versions

    async def GetModelStatus(
        self, request: GetModelStatusRequest, context: grpc.aio.ServicerContext
    ) -> GetModelStatusResponse:
        """Says which versions there are."""
        async with _guarded(context):
            return status_of(self._versions, request.model_spec.name, _number(request.model_spec))


@asynccontextmanager
async def _guarded(context: grpc.aio.ServicerContext) -> AsyncIterator[None]:
    """Turns what goes wrong into a status."""
    try:
        yield
    except RequestError as error:
        await context.abort(error.code, str(error))
    except grpc.aio.AbortError:
        raise
    except Exception:
        logging.exception("a request failed")
        await context.abort(grpc.StatusCode.INTERNAL, "the server failed; its log says more")


def _number(spec: ModelSpec) -> int | None:
    if spec.version_label:
        raise invalid(f"Unrecognized servable version label: {spec.version_label}")
    return spec.version.value if spec.HasField("version") else None


def _served(versions: ServedVersions, spec: ModelSpec) -> ServedVersion:
    return versions.served(spec.name, _number(spec))


def _spec(versions: ServedVersions, served: ServedVersion, signature: str) -> ModelSpec:
    spec = ModelSpec(name=versions.name, signature_name=signature)
    spec.version.value = served.number
    return spec


def _array(name: str, tensor: TensorProto, most_values: int) -> NDArray:
    """The values of a message, whose shape may promise more than it holds."""
    sizes = [axis.size for axis in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
        raise invalid(f"input {name} has no definite shape")
    if math.prod(sizes) > most_values:
        raise invalid(f"input {name} has shape {sizes}: too many values")
    try:
        return tf.make_ndarray(tensor)
    except (TypeError, ValueError) as error:
        raise invalid(f"input {name} is no tensor: {error}") from error
