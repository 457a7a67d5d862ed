"""Requests that a server makes of a model before it says that the model is ready.

TensorFlow prepares a graph when it first runs, and a matrix product when it first sees a shape: the
first client should not wait for either.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from t2t_repro.errors import UserError, reason_of
from t2t_repro.text.subword_model import SubwordModel, SubwordPair
from t2t_repro.vocabulary import EOS_ID, UNK_ID

WARM_UP_FILE = Path("assets.extra", "tf_serving_warmup_requests")

# Sentences of a request, and subwords of its longest; the others are shorter.
_SHAPES = ((1, 6), (1, 24), (4, 12), (16, 24))


class Request(NamedTuple):
    """A request for a prediction.

    Attributes:
        signature: the signature that it is for.
        inputs: its inputs by name.
    """

    signature: str
    inputs: Mapping[str, NDArray]


def warm_up_requests(subwords: SubwordPair, signatures: Collection[str]) -> list[Request]:
    """Requests for some signatures; those for the default one in several lengths and batch sizes.

    Args:
        subwords: of the model.
        signatures: names of those that it has.
    """
    texts = [_texts(subwords.source, *shape) for shape in _SHAPES]
    some, target = texts[0], _texts(subwords.target, *_SHAPES[0])
    ids = np.array([[*_ids(subwords.source, 6), EOS_ID]], np.int32)
    requests = [
        *(Request("serving_default", {"source": source}) for source in texts),
        Request("nbest", {"source": some}),
        Request("token_ids", {"source_ids": ids}),
        Request("score", {"source": some, "target": target}),
        Request("prefix", {"source": some, "prefix": target}),
        Request("sample", {"source": some, "seed": np.ones(len(some), np.int64)}),
        Request("alignment", {"source": some, "target": target}),
    ]
    return [request for request in requests if request.signature in signatures]


def write_warm_up(saved_model: Path, asked: Sequence[Request], model_name: str) -> None:
    """Writes requests where TensorFlow Serving looks for them in a SavedModel.

    Args:
        saved_model: the SavedModel's directory.
        asked: the requests, in the order in which they will be made.
        model_name: as clients name the model.
    """
    path = saved_model / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for request in asked:
            message = PredictRequest()
            message.model_spec.name = model_name
            message.model_spec.signature_name = request.signature
            for name, value in request.inputs.items():
                message.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            log = PredictionLog(predict_log=PredictLog(request=message))
            file.write(log.SerializeToString())


def read_warm_up(saved_model: Path) -> Iterator[PredictRequest]:
    """The requests that a SavedModel of anyone's wants to be made.

    Args:
        saved_model: the SavedModel's directory.

    Raises:
        UserError: the file is damaged, or none.
    """
    path = saved_model / WARM_UP_FILE
    if not path.exists():
        return
    if not path.is_file():
        raise UserError(f"{path} is no file, expected requests for predictions: delete it.")
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            yield PredictionLog.FromString(record).predict_log.request
    except tf.errors.DataLossError as error:
        raise UserError(
            f"{path} is damaged: {reason_of(error)}: copy or export it again."
        ) from error


def _texts(subwords: SubwordModel, batch: int, length: int) -> NDArray:
    """Sentences [batch] of `length` subwords and fewer."""
    lengths = [length - row % (length // 2) for row in range(batch)]
    return np.array([subwords.decode(_ids(subwords, count)) for count in lengths], dtype=object)


def _ids(subwords: SubwordModel, count: int) -> list[int]:
    """Some subwords that are neither special nor bytes, which SentencePiece's begin with."""
    first = min(UNK_ID + 1 + 256, subwords.size - 1)
    return [first + number % (subwords.size - first) for number in range(count)]
