"""Writes SavedModels as TensorFlow Serving expects them.

export_dir/
  <version>/               a SavedModel; the largest number is served
    assets.extra/tf_serving_warmup_requests
  models.config            files for the server's start; each says with which flag
  batching_params.pbtxt
  monitoring.config
"""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from t2t_repro.files import whole_directory, write_whole
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.text.subword_model import SubwordModel, SubwordPair
from t2t_repro.vocabulary import EOS_ID, UNK_ID

SERVER_FILES = ("models.config", "batching_params.pbtxt", "monitoring.config")
"""Their templates are in the folder for_server, with `{{model}}` for the model's name."""

WARM_UP_FILE = Path("assets.extra", "tf_serving_warmup_requests")

# Sentences of a request, and subwords of its longest; the others are shorter.
_SHAPES = ((1, 6), (1, 24), (4, 12), (16, 24))


def next_version(export_dir: Path) -> int:
    """Returns one more than the largest version that exists."""
    entries = export_dir.iterdir() if export_dir.is_dir() else ()
    return max((int(entry.name) for entry in entries if entry.name.isdecimal()), default=0) + 1


def write_saved_model(servable: Servable, export_dir: Path, version: int, model_name: str) -> Path:
    """Writes a version of a servable, whole or not at all, with its warm-up requests.

    Args:
        servable: what to write.
        export_dir: the directory of all versions. Server files that it has are left as they are.
        version: the number of this one; see `next_version`.
        model_name: the model's name, as clients give it.

    Returns:
        The version's directory.

    Raises:
        OSError: the directory cannot be written.
    """
    path = export_dir / str(version)
    with whole_directory(path) as partial:
        # Nobody trains a servable: its functions need no gradients.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        signatures = servable.signatures()
        tf.saved_model.save(servable, str(partial), signatures, options)
        _write_warm_up(partial, servable.subwords, set(signatures), model_name)
    templates = resources.files(__package__) / "for_server"
    for name in SERVER_FILES:
        if not (export_dir / name).exists():
            text = templates.joinpath(name).read_text("utf-8")
            write_whole(export_dir / name, text.replace("{{model}}", model_name).encode())
    return path


def _write_warm_up(
    saved_model: Path, subwords: SubwordPair, signatures: set[str], model_name: str
) -> None:
    """Writes requests that TensorFlow Serving makes before it calls a version ready.

    TensorFlow prepares a graph when it first runs, and a matrix product for each new shape.
    """
    path = saved_model / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in _warm_up_requests(subwords):
            if signature in signatures:
                request = PredictRequest()
                request.model_spec.name = model_name
                request.model_spec.signature_name = signature
                for name, value in inputs.items():
                    request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
                log = PredictionLog(predict_log=PredictLog(request=request))
                file.write(log.SerializeToString())


def _warm_up_requests(subwords: SubwordPair) -> Iterator[tuple[str, dict[str, NDArray]]]:
    """Yields a signature and its inputs, several shapes for the default one."""
    source, target = (_texts(side, *_SHAPES[0]) for side in subwords)
    for shape in _SHAPES:
        yield "serving_default", {"source": _texts(subwords.source, *shape)}
    yield "nbest", {"source": source}
    yield "token_ids", {"source_ids": np.array([[*_ids(subwords.source, 6), EOS_ID]], np.int32)}
    yield "sample", {"source": source, "seed": np.ones(len(source), np.int64)}
    yield "prefix", {"source": source, "prefix": target}
    for signature in ("score", "alignment"):
        yield signature, {"source": source, "target": target}


def _texts(subwords: SubwordModel, batch: int, length: int) -> NDArray:
    """Makes sentences [batch] of `length` subwords and fewer."""
    lengths = [length - row % (length // 2) for row in range(batch)]
    return np.array([subwords.decode(_ids(subwords, count)) for count in lengths], dtype=object)


def _ids(subwords: SubwordModel, count: int) -> list[int]:
    """Chooses ids that are neither special nor bytes, with which SentencePiece's begin."""
    first = min(UNK_ID + 1 + 256, subwords.size - 1)
    return [first + number % (subwords.size - first) for number in range(count)]
