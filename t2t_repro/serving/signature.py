"""A function of a SavedModel, which takes what its signature says and no more than it may."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc
import tensorflow as tf
from google.protobuf.message import Message
from numpy.typing import NDArray

from t2t_repro.errors import reason_of
from t2t_repro.serving.cancellation import Cancellation
from t2t_repro.serving.request_error import RequestError, invalid

Arrays = Mapping[str, NDArray]
"""Tensors by name; texts are bytes in arrays of objects."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class RequestLimits(NamedTuple):
    """What a request may become: a few bytes can stand for many values.

    Attributes:
        rows: most rows.
        bytes: most bytes of an input.
    """

    rows: int = 128
    bytes: int = 2**22

    def check(self, name: str, rows: int, size: int) -> None:
        """Makes sure that an input is not too large, before it is made.

        Args:
            name: of the input.
            rows: of it.
            size: of it, in bytes; of strings, what the message does not hold itself.

        Raises:
            RequestError: it is.
        """
        if rows > self.rows:
            raise invalid(f"Task size {rows} is larger than maximum input batch size {self.rows}")
        if size > self.bytes:
            raise invalid(f"input {name} becomes {size} bytes, expected {self.bytes} at most")


class TensorSpec(NamedTuple):
    """What a signature says of an input or output.

    Attributes:
        dtype: of its values.
        shape: the size of every axis, None where any will do.
    """

    dtype: tf.DType
    shape: tuple[int | None, ...]

    @property
    def is_wide(self) -> bool:
        """Whether another axis than the first may have any size."""
        return None in self.shape[1:]

    @property
    def is_text(self) -> bool:
        """Whether its values are strings."""
        return self.dtype == tf.string

    def number_bytes(self, shape: Sequence[int]) -> int:
        """Bytes of so many numbers; 0 of strings."""
        return 0 if self.is_text else math.prod(shape) * self.dtype.size

    def check_shape(self, name: str, shape: Sequence[int]) -> None:
        """Makes sure that an input has the shape that is expected.

        Raises:
            RequestError: it has another.
        """
        fits = len(shape) == len(self.shape) and all(
            size in (None, actual) for size, actual in zip(self.shape, shape, strict=True)
        )
        if not fits:
            expected = ", ".join("any" if size is None else str(size) for size in self.shape)
            raise invalid(f"input {name} has shape {list(shape)}, expected [{expected}]")


class Signature:
    """A function of a SavedModel.

    Args:
        name: of the signature.
        definition: its SignatureDef.
        function: what computes it.

    Attributes:
        inputs: by name.
        outputs: by name.
        is_joinable: whether requests can be computed together and no answer looks different for
            it: not where the size of an output depends on its neighbours.

    Raises:
        ValueError: an input or output is no batch.
    """

    def __init__(
        self, name: str, definition: Message, function: tf.types.experimental.ConcreteFunction
    ) -> None:
        self.name = name
        self.inputs = _specs(definition.inputs)
        self.outputs = _specs(definition.outputs)
        specs = [*self.inputs.values(), *self.outputs.values()]
        if not self.inputs or not all(spec.shape and spec.shape[0] is None for spec in specs):
            raise ValueError(f"signature {name} does not take and give batches of any size")
        self.is_joinable = not any(spec.is_wide for spec in specs)
        self._function = function

    def spec(self, name: str) -> TensorSpec:
        """What an input has to be.

        Raises:
            RequestError: there is no such input.
        """
        if name not in self.inputs:
            raise self.unlike([name])
        return self.inputs[name]

    def unlike(self, names: Sequence[str]) -> RequestError:
        """The error of a request that has other inputs."""
        return invalid(
            f"received the inputs {sorted(names)}; "
            f"signature {self.name} expects {sorted(self.inputs)}"
        )

    def rows(self, inputs: Arrays) -> int:
        """How many rows a request has.

        Args:
            inputs: each as `spec` says.

        Raises:
            RequestError: one is missing, or they have other numbers of rows.
        """
        if inputs.keys() != self.inputs.keys():
            raise self.unlike(list(inputs))
        counts = {name: len(array) for name, array in inputs.items()}
        if len(set(counts.values())) != 1:
            raise invalid(f"inputs must have equally many rows, received {counts}")
        return next(iter(counts.values()))

    def __call__(self, inputs: Arrays, cancellation: Cancellation) -> dict[str, NDArray]:
        """Computes the outputs.

        Args:
            inputs: what `rows` accepts.
            cancellation: of this call.

        Raises:
            RequestError: the computation failed or was given up.
        """
        tensors = {
            name: tf.constant(array, self.inputs[name].dtype) for name, array in inputs.items()
        }
        try:
            outputs = cancellation.call(self._function, tensors)
            return {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.OpError as error:
            raise RequestError(_CODES[error.error_code], reason_of(error)) from error


def _specs(places: Mapping[str, Message]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(
            tf.as_dtype(place.dtype),
            tuple(None if axis.size < 0 else axis.size for axis in place.tensor_shape.dim),
        )
        for name, place in places.items()
    }
