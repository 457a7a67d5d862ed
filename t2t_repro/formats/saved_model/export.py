"""Writes SavedModels as TensorFlow Serving expects them.

export_dir/
  <version>/               a SavedModel; the largest number is served
    assets.extra/tf_serving_warmup_requests
  models.config            files for the server's start; each says with which flag
  batching_params.pbtxt
  monitoring.config
"""

import inspect
from importlib import resources
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from t2t_repro.files import whole_directory, write_whole
from t2t_repro.formats.saved_model.servable import Servable, Signatures
from t2t_repro.vocabulary import EOS_ID, UNK_ID

# Their templates are in the folder for_server, with `{{model}}` for the model's name.
SERVER_FILES = ("models.config", "batching_params.pbtxt", "monitoring.config")

WARM_UP_FILE = Path("assets.extra", "tf_serving_warmup_requests")


def next_version(export_dir: Path) -> int:
    """Returns one more than the largest version that exists, or 1 without any.

    Versions are what has a number as its name; anything else in the directory is ignored.
    """
    numbers = (int(path.name) for path in export_dir.glob("*") if path.name.isdecimal())
    return max(numbers, default=0) + 1


def write_saved_model(servable: Servable, export_dir: Path, version: int, model_name: str) -> Path:
    """Writes a version of a servable with its warm-up requests, whole or not at all.

    Then it writes the files for the server, which are the same for all versions.

    Args:
        servable: the functions and weights to write.
        export_dir: the directory of all versions. Server files that it has are left as they are.
        version: the number of the version; see `next_version`.
        model_name: the model's name, as clients give it.

    Returns:
        the version's directory.

    Raises:
        OSError: the directory cannot be written, or has this version.
    """
    path = export_dir / str(version)
    with whole_directory(path) as partial:
        # Nobody trains a servable: its functions need no gradients.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        signatures = servable.signatures()
        tf.saved_model.save(servable, str(partial), signatures, options)
        _remove_gradients(partial)
        _write_warm_up(partial, signatures, model_name)
    for name in SERVER_FILES:
        if not (export_dir / name).exists():
            text = (resources.files(__package__) / "for_server" / name).read_text("utf-8")
            write_whole(export_dir / name, text.replace("{{model}}", model_name).encode())
    return path


def _remove_gradients(saved_model: Path) -> None:
    """Removes the names of custom gradients from the SavedModel in a directory.

    The gradients are not saved, and loading would warn of each name.
    """
    saved = SavedModel.FromString((saved_model / "saved_model.pb").read_bytes())
    for function in saved.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            node.attr.pop("_gradient_op_type", None)
    (saved_model / "saved_model.pb").write_bytes(saved.SerializeToString())
    # It has the checksum of the unchanged file, and may be missing.
    (saved_model / "fingerprint.pb").unlink(missing_ok=True)


def _write_warm_up(saved_model: Path, signatures: Signatures, model_name: str) -> None:
    """Writes a warm-up request for each signature.

    TensorFlow Serving answers them before it serves the version: the first request to a graph takes
    seconds.
    """
    # A batch of one, by the names of all signatures' inputs.
    inputs = dict.fromkeys(("source", "target", "prefix"), tf.constant(["a"]))
    inputs |= {"seed": tf.constant([1], tf.int64), "source_ids": tf.constant([[UNK_ID, EOS_ID]])}
    path = saved_model / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, function in signatures.items():
            request = PredictRequest(model_spec={"name": model_name, "signature_name": signature})
            # The inputs of a signature have the names of its function's arguments.
            for name in inspect.signature(function.python_function).parameters:
                request.inputs[name].CopyFrom(tf.make_tensor_proto(inputs[name]))
            file.write(PredictionLog(predict_log=PredictLog(request=request)).SerializeToString())
