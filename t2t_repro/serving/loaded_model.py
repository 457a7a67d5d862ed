"""A SavedModel ready for requests: loaded, warmed up, its signatures checked at every call."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  its operations must be there before a graph that has them
from google.protobuf.message import Message
from numpy.typing import NDArray
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from t2t_repro.errors import reason_of
from t2t_repro.serving.request_error import RequestError, invalid
from t2t_repro.strangers.graph import check_graph

Arrays = Mapping[str, NDArray]
"""Tensors by name; texts are bytes in arrays of objects."""

_WARM_UP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
_CODES = {code.value[0]: code for code in grpc.StatusCode}


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
    """

    def __init__(
        self, name: str, definition: Message, function: tf.types.experimental.ConcreteFunction
    ) -> None:
        self.name = name
        self.inputs = _specs(definition.inputs)
        self.outputs = _specs(definition.outputs)
        specs = [*self.inputs.values(), *self.outputs.values()]
        self.is_joinable = not any(spec.is_wide for spec in specs)
        self._function = function

    def rows(self, inputs: Arrays) -> int:
        """How many rows a request has, once it is what the signature expects.

        Raises:
            RequestError: names, types or shapes are others, or the inputs' rows differ in number.
        """
        if inputs.keys() != self.inputs.keys():
            raise invalid(
                f"received the inputs {sorted(inputs)}; "
                f"signature {self.name} expects {sorted(self.inputs)}"
            )
        for name, array in inputs.items():
            _check(name, array, self.inputs[name])
        counts = {name: len(array) for name, array in inputs.items()}
        if len(set(counts.values())) != 1:
            raise invalid(f"inputs must have equally many rows, received {counts}")
        return next(iter(counts.values()))

    def __call__(self, inputs: Arrays) -> dict[str, NDArray]:
        """Computes the outputs.

        Args:
            inputs: what `rows` accepts.

        Raises:
            RequestError: the computation failed.
        """
        tensors = {
            name: tf.constant(array, self.inputs[name].dtype) for name, array in inputs.items()
        }
        try:
            return {name: value.numpy() for name, value in self._function(**tensors).items()}
        except tf.errors.OpError as error:
            raise RequestError(_CODES[error.error_code], reason_of(error)) from error


class LoadedModel:
    """A version of a model.

    Args:
        path: the SavedModel's directory.

    Attributes:
        signatures: by name.
        metadata: their definitions, as clients may ask for them.

    Raises:
        Exception: of many types, if it is no SavedModel, or a warm-up request fails.
    """

    def __init__(self, path: Path) -> None:
        file = path / "saved_model.pb"
        if not file.is_file():
            raise FileNotFoundError(f"SavedModel file does not exist at {path}")
        (graph,) = SavedModel.FromString(file.read_bytes()).meta_graphs
        check_graph(path, graph)
        loaded = tf.saved_model.load(str(path), tags=["serve"])
        self.metadata = SignatureDefMap()
        self.signatures = {}
        for name, function in loaded.signatures.items():
            definition = graph.signature_def[name]
            self.metadata.signature_def[name].CopyFrom(definition)
            self.signatures[name] = Signature(name, definition, function)
        # The functions hold its variables weakly.
        self._loaded = loaded
        self._warm_up(path / _WARM_UP_FILE)

    def signature(self, name: str) -> Signature:
        """The signature of a name; the default one without.

        Raises:
            RequestError: there is none.
        """
        name = name or "serving_default"
        if name not in self.signatures:
            raise RequestError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Serving signature name: "{name}" not found; there are '
                f"{', '.join(sorted(self.signatures))}",
            )
        return self.signatures[name]

    def _warm_up(self, path: Path) -> None:
        if not path.exists():
            return
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            request = PredictionLog.FromString(record).predict_log.request
            inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
            signature = self.signature(request.model_spec.signature_name)
            signature.rows(inputs)
            signature(inputs)


def _specs(places: Mapping[str, Message]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(
            tf.as_dtype(place.dtype),
            tuple(None if axis.size < 0 else axis.size for axis in place.tensor_shape.dim),
        )
        for name, place in places.items()
    }


def _check(name: str, array: NDArray, spec: TensorSpec) -> None:
    """Raises a RequestError if an array is not what is expected."""
    expected = np.dtype(spec.dtype.as_numpy_dtype)
    if array.dtype != expected:
        received = "strings" if array.dtype == object else array.dtype
        raise invalid(f"input {name} holds {received}, expected {spec.dtype.name}")
    fits = array.ndim == len(spec.shape) and all(
        size in (None, actual) for size, actual in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        shape = ", ".join("any" if size is None else str(size) for size in spec.shape)
        raise invalid(f"input {name} has shape {list(array.shape)}, expected [{shape}]")
