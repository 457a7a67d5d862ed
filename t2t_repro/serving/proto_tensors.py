"""Requests and answers as TensorFlow Serving writes them in messages (predict.proto)."""

import math
from collections.abc import Collection, Sequence
from typing import TypeVar

import tensorflow as tf
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from t2t_repro.serving.request_error import invalid
from t2t_repro.serving.signature import Arrays, RequestLimits, Signature, TensorSpec

_Message = TypeVar("_Message", bound=Message)


def read_message(kind: type[_Message], content: bytes) -> _Message:
    """A message from its bytes.

    Raises:
        RequestError: they are none of this kind.
    """
    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise invalid(f"the request is no {kind.DESCRIPTOR.full_name}") from error


def read_inputs(request: PredictRequest, signature: Signature, limits: RequestLimits) -> Arrays:
    """The inputs of a request.

    Raises:
        RequestError: they are not what the signature takes, or become too large.
    """
    return {
        name: _array(name, tensor, signature.spec(name), limits)
        for name, tensor in request.inputs.items()
    }


def chosen_outputs(request: PredictRequest, signature: Signature) -> Collection[str]:
    """The outputs that a request asks for: all, where it names none.

    Raises:
        RequestError: it names others, or one twice.
    """
    asked = request.output_filter
    if len(asked) > len(signature.outputs):
        raise invalid(f"output_filter has {len(asked)} entries, expected {len(signature.outputs)}")
    if unknown := set(asked) - signature.outputs.keys():
        raise invalid(f"output tensor alias not found in signature: {min(unknown)}")
    if len(set(asked)) < len(asked):
        raise invalid(f"duplicate output tensor alias: {sorted(asked)}")
    return asked or signature.outputs.keys()


def write_outputs(
    response: PredictResponse, signature: Signature, outputs: Arrays, chosen: Collection[str]
) -> None:
    """Writes outputs into an answer.

    Args:
        response: the answer.
        signature: that they are of.
        outputs: all of them.
        chosen: the names of those to write.
    """
    for name in chosen:
        dtype = signature.outputs[name].dtype
        response.outputs[name].CopyFrom(tf.make_tensor_proto(outputs[name], dtype))


def _array(name: str, tensor: TensorProto, spec: TensorSpec, limits: RequestLimits) -> NDArray:
    """The values of a message, whose shape may promise more than it holds."""
    if tensor.dtype != spec.dtype.as_datatype_enum:
        raise invalid(f"input {name} holds {_type_name(tensor)}, expected {spec.dtype.name}")
    sizes = [axis.size for axis in tensor.tensor_shape.dim[: len(spec.shape) + 1]]
    if tensor.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
        raise invalid(f"input {name} has no definite shape")
    spec.check_shape(name, sizes)
    limits.check(name, sizes[0], spec.number_bytes(sizes) + _repeated_bytes(tensor, sizes))
    try:
        return tf.make_ndarray(tensor)
    except (TypeError, ValueError) as error:
        raise invalid(f"input {name} is no tensor: {error}") from error


def _repeated_bytes(tensor: TensorProto, sizes: Sequence[int]) -> int:
    """Bytes of the strings that are not given: the last one stands for all of them."""
    given = tensor.string_val
    return (math.prod(sizes) - len(given)) * len(given[-1]) if given else 0


def _type_name(tensor: TensorProto) -> str:
    try:
        return tf.as_dtype(tensor.dtype).name
    except TypeError:
        return f"values of type {tensor.dtype}"
