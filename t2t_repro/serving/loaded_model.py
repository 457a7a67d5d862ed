"""A SavedModel ready for requests: looked through, loaded, warmed up."""

from pathlib import Path

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401  its operations must be there before a graph that has them
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap
from tensorflow_serving.apis.predict_pb2 import PredictRequest

from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most
from t2t_repro.formats.saved_model.warm_up import read_warm_up
from t2t_repro.serving.cancellation import Cancellation
from t2t_repro.serving.proto_tensors import read_inputs
from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.signature import RequestLimits, Signature
from t2t_repro.strangers.graph import check_graph

_LIMITS = RequestLimits()
_MOST_BYTES = 2**31 - 1  # of a message


class LoadedModel:
    """A version of a model.

    Nothing of it is loaded or run before all of it was looked through.

    Args:
        path: the SavedModel's directory.
        limits: of its warm-up requests, which are anybody's too; those that no client could make
            for their rows are passed over.

    Attributes:
        signatures: by name.
        metadata: their definitions, as clients may ask for them.

    Raises:
        Exception: of many types, if it is no SavedModel, or a warm-up request fails.
    """

    def __init__(self, path: Path, limits: RequestLimits = _LIMITS) -> None:
        (graph,) = SavedModel.FromString(_content(path / "saved_model.pb")).meta_graphs
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
        self._warm_up(path, limits)

    def signature(self, name: str) -> Signature:
        """The signature of a name; the default one without.

        Raises:
            RequestError: there is none.
        """
        name = name or "serving_default"
        if name not in self.signatures:
            raise RequestError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Serving signature name: "{name[:80]}" not found; there are '
                f"{', '.join(sorted(self.signatures))}",
            )
        return self.signatures[name]

    def _warm_up(self, path: Path, limits: RequestLimits) -> None:
        for request in read_warm_up(path):
            if _rows(request) > limits.rows:
                continue
            signature = self.signature(request.model_spec.signature_name)
            inputs = read_inputs(request, signature, limits)
            signature.rows(inputs)
            signature(inputs, Cancellation())


def _rows(request: PredictRequest) -> int:
    """How many rows a request says that it has."""
    shapes = [tensor.tensor_shape.dim for tensor in request.inputs.values()]
    return max((shape[0].size for shape in shapes if shape), default=0)


def _content(file: Path) -> bytes:
    try:
        return read_at_most(file, _MOST_BYTES)
    except ValueError as error:
        raise UserError(f"{file} is no SavedModel ({error}): copy or export it again.") from error
