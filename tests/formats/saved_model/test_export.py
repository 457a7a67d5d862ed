"""What an export writes: whole versions, of operations that stock servers know."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_repro.formats.saved_model import export
from t2t_repro.formats.saved_model.export import next_version, write_saved_model

PUBLIC = {"serving_default", "nbest", "token_ids", "score", "prefix", "sample", "alignment"}


def test_the_warm_up_requests_are_answered(serve, export_dir, graph):
    path = str(export_dir / "3" / export.WARM_UP_FILE)
    records = [*tf.data.TFRecordDataset(path).as_numpy_iterator()]
    requests = [PredictionLog.FromString(record).predict_log.request for record in records]
    assert {request.model_spec.name for request in requests} == {"made"}
    names = {name for name in graph.signature_def if not name.startswith("__")}
    assert {request.model_spec.signature_name for request in requests} == names == PUBLIC
    for request in requests:
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        answer = serve(request.model_spec.signature_name, inputs)
        assert {len(x) for x in answer.values()} == {len(x) for x in inputs.values()}


def nodes(graph):
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def test_every_operation_is_one_of_tensorflow_2_12(graph):
    """All of them, with their attributes, are known to TensorFlow 2.12.1 and its text library."""
    lines = Path(__file__).with_name("ops_2_12.txt").read_text().splitlines()[1:]
    known = {name: set(attributes) for name, *attributes in map(str.split, lines)}
    functions = {function.signature.name for function in graph.graph_def.library.function}
    used = set()
    for node in nodes(graph):
        used.add(node.op)
        assert node.op in known.keys() | functions
        # Loading would warn of each.
        assert "_gradient_op_type" not in node.attr
        # A note that loaders which do not know it ignore.
        attributes = {name for name in node.attr if name[0] != "_"} - {"debug_name"}
        assert attributes <= known.get(node.op, set()), node.op
    assert {"SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "InplaceUpdate"} <= used


def test_the_search_is_written_once_for_all_but_prefix_and_sample(graph, translator):
    # Keys and values of every decoder layer are written in place, in a search and nowhere else.
    written = [node for node in nodes(graph) if node.op == "InplaceUpdate"]
    assert len(written) == 3 * 2 * translator.model.num_decoder_layers


def test_the_weights_are_stored_once(export_dir, translator):
    prefix = str(export_dir / "3" / "variables" / "variables")
    stored = sum(
        tf.train.load_variable(prefix, name).nbytes
        for name, _ in tf.train.list_variables(prefix)
        if "OBJECT_GRAPH" not in name
    )
    weights = translator.model.trainable_variables
    assert stored == sum(4 * int(np.prod(weight.shape)) for weight in weights)


def test_versions_are_counted(tmp_path):
    assert next_version(tmp_path / "new") == 1
    for name in ("2", "10", ".11.partial", "models.config", "12a"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11


class Nothing(tf.Module):
    def signatures(self):
        return {}


def test_a_version_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    # The warm-up requests fail, after the graph has been written.
    monkeypatch.setattr(export, "_write_warm_up", None)
    with pytest.raises(TypeError):
        write_saved_model(Nothing(), tmp_path, 1, "made")
    assert list(tmp_path.iterdir()) == []


def test_files_for_the_server(tmp_path):
    (tmp_path / "batching_params.pbtxt").write_text("max_batch_size { value: 8 }")
    write_saved_model(Nothing(), tmp_path, 1, "made")
    assert {path.name for path in tmp_path.iterdir()} == {"1", *export.SERVER_FILES}
    config = text_format.Parse((tmp_path / "models.config").read_text(), ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("made", "/models/made")
    # One that was adapted stays.
    assert (tmp_path / "batching_params.pbtxt").read_text() == "max_batch_size { value: 8 }"
