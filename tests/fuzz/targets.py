"""What is fuzzed: valid files, how they are spoilt, and what reads them.

Whatever a reader is given, it ends well, or with a UserError.
"""

import base64
import functools
import gzip
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gin
import keras
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from t2t_repro import experiment
from t2t_repro.analysis.run_record import Evaluation, read_run
from t2t_repro.config.decoding_bindings import check_harmless
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.prepared import Preparation, PreparedData
from t2t_repro.data.token_store import TokenStore
from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import read_marian_config
from t2t_repro.formats.marian.hugging_face_import import transformer_from_marian, weights_file
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.formats.saved_model.warm_up import WARM_UP_FILE, read_warm_up
from t2t_repro.formats.tensor2tensor.checkpoint import step_of_t2t, transformer_from_t2t
from t2t_repro.import_t2t import DECODING
from t2t_repro.model.transformer import Transformer
from t2t_repro.parsing.linear_trees import delinearise
from t2t_repro.parsing.treebank import TreebankCorpus
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.serving.predict import read_request
from t2t_repro.serving.proto_tensors import chosen_outputs, read_inputs, read_message
from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.signature import RequestLimits
from t2t_repro.strangers.graph import check_graph
from t2t_repro.strangers.weights_file import WeightsFile
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import open_pair, open_subwords, shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.event_files import rewind
from t2t_repro.training.replay import read_batch
from tests.decoding.random_translator import ODD_LINES, TEXT, write_subwords
from tests.formats.marian.marian_directory import write_marian_model
from tests.formats.saved_model.signatures import signature_of
from tests.formats.tensor2tensor.test_checkpoint import t2t_variables, write_checkpoint
from tests.fuzz.gin_text import spoil_gin
from tests.fuzz.mutations import (
    Mutation,
    spoil_bytes,
    spoil_gzip,
    spoil_index,
    spoil_json,
    spoil_saved_model,
    spoil_sentencepiece,
)
from tests.strangers.exports import write_tiny
from tests.text.marian_directory import write_marian_text
from tests.text.test_t2t import VOCABULARY
from tests.text.test_t2t import write as write_vocabulary
from tests.token_stores import write_token_store
from tests.training.tiny import tiny_model

_TREES = """\
( (S (NP-SBJ (DT The) (NN dog) ) (VP (VBZ barks) (NP (-NONE- *) )) (. .) ))
(TOP (S=2 (NP (NNP A-1)) (VP (VB see)
   (NP (PRP it)))))
(())
"""
_GIN = """\
# A comment.
Translator.search = @BeamSearch()
Translator.max_extra_length = 20
BeamSearch.beam_size = 2
BeamSearch.length_penalty = %penalty
penalty = 0.6
evaluate.metrics = (@bleu, @chrf)
LayerConfig:
  d_model = 8
  num_heads = 2
TextFilesCorpus.train = [('a.en', 'b.de'), 'c.tsv']
prepare.corpus = @TextFilesCorpus()
TrainingSchedule.steps = 3
train.seed = 1
choose_strategy.cpu_replicas = 1
"""
_LINES = ODD_LINES[:12]


@dataclass(frozen=True)
class Target:
    """A reader of files.

    Attributes:
        write: writes valid files into a folder.
        spoil: how, by pattern of their names; the first that fits.
        read: reads the folder.
    """

    write: Callable[[Path], object]
    spoil: dict[str, Mutation]
    read: Callable[[Path], object]


def _write_text(folder: Path) -> None:
    lines = "".join(f"{line}\n" for line in TEXT)
    for name in ("a.en", "a.de"):
        (folder / name).write_text(f"\ufeff{lines}", encoding="utf-8")
    (folder / "b.tsv").write_text("ein Haus\ta house\r\nβ\tb\n", encoding="utf-8")
    (folder / "c.tsv.gz").write_bytes(gzip.compress(b"ein Haus\ta house\n" * 50))


def _read_text(folder: Path) -> None:
    names = ["b.tsv", "c.tsv.gz", ("a.en", "a.de")]
    for name in names:
        entry = str(folder / name) if isinstance(name, str) else [str(folder / n) for n in name]
        corpus = TextFilesCorpus(train=[entry], dev=[entry])
        corpus.prepare(folder)
        corpus.describe()
        for _ in corpus.read("train", folder):
            pass


def _write_trees(folder: Path) -> None:
    (folder / "a.mrg").write_text(_TREES)
    (folder / "b.mrg.gz").write_bytes(gzip.compress(_TREES.encode() * 3))


def _read_trees(folder: Path) -> None:
    for name in ("a.mrg", "b.mrg.gz"):
        corpus = TreebankCorpus(train=name, dev=name, folder=str(folder))
        corpus.prepare(folder)
        for _, symbols in corpus.read("train", folder):
            delinearise(symbols)


def _write_store(folder: Path) -> None:
    pairs = [([5, 7, 1], [3, 1]), ([1], [299, 4, 1]), ([2, 1], [2, 2, 1])] * 3
    write_token_store(folder / "store", pairs, vocab_size=300)


def _read_store(folder: Path) -> None:
    store = TokenStore(folder / "store")
    count = min(len(store), 100)
    lengths = store.source_lengths[:count].max(), store.target_lengths[:count].max()
    if max(lengths) < 10_000:
        store.padded_batch(np.arange(count), int(lengths[0]), int(lengths[1]), count)


def _write_prepared(folder: Path) -> None:
    _write_text(folder)
    sides = str(folder / "a.en"), str(folder / "a.de")
    Preparation(
        TextFilesCorpus(train=sides, dev=sides),
        Cleaning(drop_held_out=False, drop_duplicates=False),
        SubwordTraining(vocab_size=300),
        workers=1,
    ).run(folder)
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()


def _read_prepared(folder: Path) -> None:
    # As a stranger's, with whatever checksums belong to it.
    manifest = folder / "prepared" / "manifest.json"
    try:
        content = json.loads(manifest.read_bytes())
        del content["files"]
        manifest.write_text(json.dumps(content))
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        pass
    data = PreparedData(folder / "prepared")
    for split in data.splits:
        data.text(split)
        data.store(split)


def _read_manifest(folder: Path) -> None:
    PreparedData(folder / "prepared")


def _write_marian_subwords(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as theirs:
        text = read_marian_text(write_marian_text(Path(theirs)))
    (folder / "subwords.model").write_bytes(text.target.file.content())


def _spoil_marian_subwords(rng: random.Random, content: bytes) -> bytes:
    """The file, or SentencePiece's model in it."""
    if rng.random() < 0.5:
        return spoil_json(rng, content)
    values = json.loads(content)
    spoilt = spoil_sentencepiece(rng, base64.b64decode(values["model"]))
    return json.dumps(values | {"model": base64.b64encode(spoilt).decode()}).encode()


def _read_subwords(folder: Path) -> None:
    subwords = open_subwords(folder / "subwords.model")
    for ids in subwords.encode(_LINES):
        assert max(ids) < subwords.size
        subwords.decode(ids)
        subwords.labels(ids)
    subwords.decode([3, 5, 10**9, -4, 0])


def _spoil_safetensors(rng: random.Random, content: bytes) -> bytes:
    """The header, with a length that mostly is its own, or any bytes."""
    length = int.from_bytes(content[:8], "little")
    if rng.random() < 0.3:
        return spoil_bytes(rng, content)
    header = spoil_json(rng, content[8 : 8 + length])
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def _read_marian_model(folder: Path) -> None:
    _forget_models()
    config = read_marian_config(folder)
    transformer_from_marian(folder, config, read_marian_text(folder), weights_file(folder))


def _forget_models() -> None:
    """TensorFlow keeps 4 MB of every model: an operation for each variable, by its name."""
    keras.backend.clear_session(free_memory=False)


def _read_weights(file: WeightsFile) -> None:
    for name in file.shapes:
        file.read(name)


def _write_t2t(folder: Path) -> None:
    write_checkpoint(folder, {**t2t_variables()[0], "global_step": np.int64(7)})


def _read_t2t(folder: Path) -> None:
    _forget_models()
    transformer_from_t2t(folder, subwords=35)
    step_of_t2t(folder)


def _write_gin(folder: Path) -> None:
    write_subwords(folder / "subwords.model")
    (folder / "a.gin").write_text(_GIN)


def _read_gin(folder: Path) -> None:
    experiment.configure_experiment(folder / "a.gin", [])
    experiment.Translator([tiny_model(d_model=8)], open_pair(folder))
    experiment.evaluate(["a b c d"], ["a b c e"])
    gin.config_str()


def _read_config(folder: Path) -> None:
    """As a verb reads a stranger's, and as gin puts in what it refers to."""
    check_harmless(folder / "a.gin")
    experiment.configure_experiment(None, [f"include {str(folder / 'a.gin')!r}"])
    gin.config_str()
    experiment.Translator([_model()], open_pair(folder))
    experiment.evaluate(["a b c d"], ["a b c e"])


@functools.cache
def _model() -> Transformer:
    """Made once: Keras keeps something of every model."""
    return tiny_model(d_model=8)


def _write_model(folder: Path) -> None:
    directory = ModelDirectory(folder / "model")
    subwords = shared(SentencePieceModel(write_subwords(folder / "subwords.model")))
    directory.describe(tiny_model(d_model=8), subwords, DECODING, "")
    directory.write_imported(tiny_model(d_model=8), 5)
    (folder / "subwords.model").unlink()
    directory.write_scores("dev", Evaluation("averaged/step-5", 3.5, []).as_dict())
    epoch = {"batches": 3, "sentences": 9, "source_tokens": 90, "target_tokens": 91}
    directory.epoch_json.write_text(json.dumps(epoch))


def _read_model(folder: Path) -> None:
    _forget_models()
    read_run(folder / "model")
    experiment.load_translator(folder / "model", [], None)


def _write_batch(folder: Path) -> None:
    ids = np.ones((2, 3, 4), np.int32)
    np.savez_compressed(folder / "step-7.npz", step=7, source=ids, target=ids)
    np.savez(folder / "step-8.npz", step=7, source=ids, target=ids)


def _read_batches(folder: Path) -> None:
    for path in sorted(folder.glob("*.npz")):
        read_batch(path)


def _write_events(folder: Path) -> None:
    with tf.io.TFRecordWriter(str(folder / "events.out.tfevents.1.x.v2")) as writer:
        for step in range(9):
            value = tf.compat.v1.Summary.Value(tag="train/loss", simple_value=step)
            event = tf.compat.v1.Event(step=step, summary={"value": [value]})
            writer.write(event.SerializeToString())


def _read_events(folder: Path) -> None:
    rewind(folder, 5, "dev/")


def _request() -> PredictRequest:
    request = PredictRequest(output_filter=["text"])
    request.model_spec.name = "made"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto([b"a tree", b"", b"\xff"], tf.string))
    request.inputs["ids"].CopyFrom(tf.make_tensor_proto(np.ones((3, 5), np.int32)))
    return request


def _write_requests(folder: Path) -> None:
    (folder / "a.pb").write_bytes(_request().SerializeToString())
    log = PredictionLog(predict_log=PredictLog(request=_request()))
    path = folder / WARM_UP_FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for _ in range(3):
            file.write(log.SerializeToString())
    document = {"inputs": {"text": ["a tree", "", {"b64": "/w=="}], "ids": [[1, 2]] * 3}}
    (folder / "a.json").write_text(json.dumps(document))
    rows = [{"text": "a", "ids": [1]}, {"text": "b", "ids": [5]}]
    (folder / "b.json").write_text(json.dumps({"signature_name": "x", "instances": rows}))


def _read_requests(folder: Path) -> None:
    signature, limits = signature_of(text=(tf.string, 1), ids=(tf.int32, 2)), RequestLimits()
    messages = [lambda: [read_message(PredictRequest, (folder / "a.pb").read_bytes())]]
    for read in (*messages, lambda: read_warm_up(folder)):
        with _refused():
            for request in read():
                chosen_outputs(request, signature)
                signature.rows(read_inputs(request, signature, limits))
    for name in ("a.json", "b.json"):
        with _refused():
            asked = read_request((folder / name).read_bytes(), lambda name: signature, limits)
            signature.rows(asked.inputs)


@contextmanager
def _refused() -> Iterator[None]:
    """As a server does it: in one line."""
    try:
        yield
    except RequestError as error:
        if error.code.name != "INVALID_ARGUMENT" or len(str(error)) > 1000:
            raise
    except UserError as error:
        if len(str(error)) > 1000:
            raise


def _write_servable(folder: Path) -> None:
    write_tiny(folder)


def _read_servable(folder: Path) -> None:
    try:
        saved = SavedModel.FromString((folder / "1" / "saved_model.pb").read_bytes())
    except DecodeError:
        return
    for graph in saved.meta_graphs:
        check_graph(folder / "1", graph)


TARGETS = {
    "requests": Target(_write_requests, {"*.json": spoil_json, "*": spoil_bytes}, _read_requests),
    "text_files": Target(_write_text, {"*.gz": spoil_gzip, "*": spoil_bytes}, _read_text),
    "treebank": Target(_write_trees, {"*.gz": spoil_gzip, "*": spoil_bytes}, _read_trees),
    "token_store": Target(_write_store, {"*.json": spoil_json, "*": spoil_bytes}, _read_store),
    "prepared": Target(
        _write_prepared,
        {
            "verified.json": lambda rng, content: content,
            "*.json": spoil_json,
            "*.model": spoil_sentencepiece,
            "*": spoil_bytes,
        },
        _read_prepared,
    ),
    "manifest": Target(_write_prepared, {"*.json": spoil_json}, _read_manifest),
    "subwords": Target(
        lambda folder: shutil.move(write_subwords(folder / "x"), folder / "subwords.model"),
        {"*": spoil_sentencepiece},
        _read_subwords,
    ),
    "t2t_vocabulary": Target(
        lambda folder: write_vocabulary(folder / "subwords.model", VOCABULARY),
        {"*": spoil_bytes},
        _read_subwords,
    ),
    "marian_subwords": Target(
        _write_marian_subwords, {"*.model": _spoil_marian_subwords}, _read_subwords
    ),
    "marian_text": Target(
        write_marian_text,
        {"*.json": spoil_json, "*": spoil_sentencepiece},
        lambda folder: read_marian_text(folder),
    ),
    "marian_model": Target(
        write_marian_model,
        {
            "config.json": spoil_json,
            "*.safetensors": _spoil_safetensors,
            "*": lambda rng, content: content,
        },
        _read_marian_model,
    ),
    "marian_h5": Target(
        lambda folder: write_marian_model(folder, weights="h5"),
        {"*.h5": spoil_bytes, "*": lambda rng, content: content},
        lambda folder: _read_weights(weights_file(folder)),
    ),
    "gin": Target(_write_gin, {"*.gin": spoil_bytes}, _read_gin),
    "config.gin expansion": Target(_write_gin, {"*.gin": spoil_gin}, _read_config),
    "t2t_checkpoint": Target(
        _write_t2t,
        {"*.json": spoil_json, "*.index": spoil_index, "*": spoil_bytes},
        _read_t2t,
    ),
    "model_directory": Target(
        _write_model,
        {
            "*.json": spoil_json,
            "*.index": spoil_index,
            "*.model": spoil_sentencepiece,
            "*": spoil_bytes,
        },
        _read_model,
    ),
    "replay": Target(_write_batch, {"*": spoil_bytes}, _read_batches),
    "servable": Target(
        _write_servable,
        {"*saved_model.pb": spoil_saved_model, "*.index": spoil_index, "*.data*": spoil_bytes},
        _read_servable,
    ),
    "event_files": Target(_write_events, {"*": spoil_bytes}, _read_events),
}
