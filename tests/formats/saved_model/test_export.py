"""What an export writes: whole versions, of operations that stock servers know."""

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_repro.errors import UserError
from t2t_repro.formats.saved_model.export import next_version, write_saved_model
from t2t_repro.formats.saved_model.server_files import SERVER_FILES, write_server_files
from t2t_repro.formats.saved_model.warm_up import WARM_UP_FILE
from tests.formats.saved_model.cpp_client import cpp_session


def warm_up_requests(export_dir):
    records = tf.data.TFRecordDataset(str(export_dir / "3" / WARM_UP_FILE)).as_numpy_iterator()
    for record in records:
        request = PredictionLog.FromString(record).predict_log.request
        yield request, {name: tf.make_ndarray(value) for name, value in request.inputs.items()}


def test_the_warm_up_requests_are_answered(serve, export_dir, graph):
    asked = list(warm_up_requests(export_dir))
    assert {request.model_spec.name for request, _ in asked} == {"made"}
    signatures = [request.model_spec.signature_name for request, _ in asked]
    public = {name for name in graph.signature_def if not name.startswith("__")}
    assert set(signatures) == public == {"serving_default", "nbest", "token_ids", "score"}
    for name, (_, inputs) in zip(signatures, asked, strict=True):
        answer = serve(name, inputs)
        assert {len(x) for x in answer.values()} == {len(x) for x in inputs.values()}
    defaults = [
        x["source"] for name, (_, x) in zip(signatures, asked, strict=True) if "def" in name
    ]
    assert len({len(source) for source in defaults}) > 1
    assert len({max(map(len, source)) for source in defaults}) > 1


def test_without_the_operations_of_tensorflow_text_it_is_refused(export_dir):
    with cpp_session(export_dir / "3", []) as (_, loaded):
        assert "Sentencepiece" in loaded["error"]


def nodes(graph):
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def known_operations_of(graph):
    """The operations of a graph, all of which TensorFlow 2.12.1 and tensorflow-text know."""
    lines = Path(__file__).with_name("ops_2_12.txt").read_text().splitlines()[1:]
    known = {name: set(attributes) for name, *attributes in map(str.split, lines)}
    functions = {function.signature.name for function in graph.graph_def.library.function}
    used = set()
    for node in nodes(graph):
        used.add(node.op)
        assert node.op in known.keys() | functions
        # A note that loaders which don't know it pass over.
        attributes = {name for name in node.attr if name[0] != "_"} - {"debug_name"}
        assert attributes <= known.get(node.op, set()), node.op
    return used


def test_every_operation_is_one_of_tensorflow_2_12(graph):
    used = known_operations_of(graph)
    assert {"SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "InplaceUpdate"} <= used


def test_nothing_is_left_to_xla(graph):
    for owner in [*nodes(graph), *graph.graph_def.library.function]:
        for name, value in owner.attr.items():
            assert not ("xla" in name.lower() and value.b), owner
            assert "jit" not in name.lower(), owner


def test_inputs_and_outputs_begin_with_the_batch(graph):
    for name, signature in graph.signature_def.items():
        if not name.startswith("__"):
            for place in [*signature.inputs.values(), *signature.outputs.values()]:
                assert place.tensor_shape.dim[0].size == -1
                assert not place.tensor_shape.unknown_rank


def test_the_search_is_written_once(graph, translator):
    # Keys and values of every decoder layer are written in place, in beam search and nowhere else.
    written = [node for node in nodes(graph) if node.op == "InplaceUpdate"]
    assert len(written) == 2 * translator.model.num_layers


def test_the_weights_are_stored_once(export_dir, translator):
    prefix = str(export_dir / "3" / "variables" / "variables")
    stored = 0
    for name, shape in tf.train.list_variables(prefix):
        if "OBJECT_GRAPH" not in name:
            stored += tf.train.load_variable(prefix, name).nbytes
            assert shape
    weights = translator.model.trainable_variables
    assert stored == sum(4 * int(np.prod(weight.shape)) for weight in weights)


def test_versions_are_counted(tmp_path):
    assert next_version(tmp_path / "new") == 1
    for name in ("2", "10", ".11.partial", "models.config", "12a"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11
    assert next_version(tmp_path, 3) == 3
    with pytest.raises(UserError, match=r"--version=10: .* holds that version already"):
        next_version(tmp_path, 10)
    with pytest.raises(UserError, match="expected 1 or more"):
        next_version(tmp_path, 0)
    with pytest.raises(UserError, match="at most 9223372036854775807"):
        next_version(tmp_path, 2**63)
    # Of a number that no server takes.
    (tmp_path / str(2**63)).mkdir()
    assert next_version(tmp_path) == 11
    (tmp_path / str(2**63 - 1)).mkdir()
    with pytest.raises(UserError, match="at most 9223372036854775807"):
        next_version(tmp_path)


def test_a_version_appears_whole_or_not_at_all(tmp_path, translator, monkeypatch):
    def fail(*_):
        assert (tmp_path / ".1.partial" / "saved_model.pb").exists()
        assert not (tmp_path / "1").exists()
        raise OSError(28, "No space left on device")

    class Nothing(tf.Module):
        subwords = translator.subwords

        def signatures(self):
            return {}

    monkeypatch.setattr("t2t_repro.formats.saved_model.export.write_warm_up", fail)
    with pytest.raises(UserError, match="No space left on device"):
        write_saved_model(Nothing(), tmp_path, 1, "made")
    assert list(tmp_path.iterdir()) == []


def test_what_the_server_is_started_with(export_dir):
    names = {path.name for path in export_dir.iterdir()}
    assert names == {"3", *SERVER_FILES}
    config = text_format.Parse((export_dir / "models.config").read_text(), ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("made", "/models/made")
    lines = (export_dir / "batching_params.pbtxt").read_text().splitlines()
    assert [line.split()[0] for line in lines if line[0] != "#"] == [
        "max_batch_size",
        "batch_timeout_micros",
        "max_enqueued_batches",
        "pad_variable_length_inputs:",
    ]


def test_a_file_for_the_server_is_whole_or_not_there(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left on device"):
            write_server_files(tmp_path, "made")
    assert not any((tmp_path / name).exists() for name in SERVER_FILES)
    write_server_files(tmp_path, "made")
    assert {path.name for path in tmp_path.iterdir()} == {*SERVER_FILES}


def test_files_that_were_adapted_stay(tmp_path):
    (tmp_path / "batching_params.pbtxt").write_text("max_batch_size { value: 8 }")
    write_server_files(tmp_path, "made")
    assert (tmp_path / "batching_params.pbtxt").read_text() == "max_batch_size { value: 8 }"
    assert 'name: "made"' in (tmp_path / "models.config").read_text()
