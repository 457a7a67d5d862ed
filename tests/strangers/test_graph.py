"""What a stranger's servable may do, and that ours may."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2, types_pb2
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.trackable import resource

from t2t_repro.errors import UserError
from t2t_repro.serving.cancellation import Cancellation
from t2t_repro.serving.loaded_model import LoadedModel
from t2t_repro.strangers.allowed_operations import (
    IN_FUNCTIONS,
    IN_GRAPH,
    IN_SAVER,
    OF_ONES_OWN,
    RANDOM,
    STRUCTURE,
)
from t2t_repro.strangers.graph import _faults, check_graph
from tests.strangers import attacks
from tests.strangers.exports import (
    KINDS,
    graph_of,
    operations_of,
    together,
    write_export,
    write_tiny,
)

# A layer gives an activation one argument.
ACTIVATIONS = sorted(
    {name for name in dir(keras.activations) if name[0].islower()}
    - {"deserialize", "get", "serialize", "threshold"}
)

OF_FUNCTIONS = IN_FUNCTIONS | OF_ONES_OWN | RANDOM | STRUCTURE


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Directories of exported versions, by kind."""
    folder = tmp_path_factory.mktemp("exports")
    return {name: write_export(kind, folder / name) for name, kind in KINDS.items()}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    version = write_tiny(tmp_path_factory.mktemp("tiny"))
    check_graph(version, graph_of(version))
    return version


def registered():
    """All operations that TensorFlow and tensorflow-text know, by name."""
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return {operation.name: operation for operation in op_def_pb2.OpList.FromString(buffer).op}


# The lists.


def test_the_lists_are_what_export_writes(exports):
    found = together([operations_of(graph_of(version)) for version in exports.values()])
    assert found == (IN_GRAPH, IN_FUNCTIONS, IN_SAVER)
    assert not IN_FUNCTIONS & (OF_ONES_OWN | RANDOM | STRUCTURE)


def test_what_else_is_allowed_computes_numbers():
    known = registered()
    no_numbers = {types_pb2.DT_STRING, types_pb2.DT_RESOURCE}
    names_of_ways = {"align", "bad_indices_policy", "data_format", "equation", "message", "mode"}
    for name in OF_ONES_OWN | RANDOM | STRUCTURE:
        operation = known[name]
        assert operation.is_stateful == (name in RANDOM), name
        arguments = [*operation.input_arg, *operation.output_arg]
        types = {argument.type for argument in arguments}
        assert not types & no_numbers, name
        assert types_pb2.DT_VARIANT not in types or name in STRUCTURE, name
        assert not any(argument.is_ref for argument in arguments), name
        for attribute in operation.attr:
            if attribute.type in ("string", "list(string)"):
                chosen = attribute.name in names_of_ways | {"padding", "explicit_paddings"}
                assert chosen or name == "PartitionedCall", (name, attribute.name)
            assert "func" not in attribute.type or name == "PartitionedCall", name


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_keras_activations_are_allowed(name):
    function = tf.function(keras.activations.get(name), autograph=False)
    graph = function.get_concrete_function(tf.TensorSpec([None, 8])).graph.as_graph_def()
    found = {node.op for node in graph.node}
    found |= {node.op for function in graph.library.function for node in function.node_def}
    assert found - {"Placeholder"} <= OF_FUNCTIONS


def places(graph):
    """Nodes of the graph, a function, one that it calls, the saver's; and what is allowed there."""
    functions = {function.signature.name: function for function in graph.graph_def.library.function}

    def named(part):
        (name,) = [name for name in functions if part in name]
        return functions[name].node_def

    yield graph.graph_def.node, IN_GRAPH
    yield named("__inference_translate"), OF_FUNCTIONS
    yield named("while_body"), OF_FUNCTIONS
    yield named("traced_save"), IN_SAVER
    yield named("traced_restore"), IN_SAVER


def test_every_other_operation_is_refused_everywhere(tiny):
    graph = graph_of(tiny)
    every = [*registered(), "Nonsense"]
    assert len(every) > 1900
    assert {"SentencepieceTokenizeOp", "TFText>RoundRobinTrim"} <= {*every}
    for nodes, allowed in places(graph):
        refused = {*every} - allowed
        assert len(refused) > 1700
        count = len(nodes)
        for name in every:
            nodes.add(op=name, name="another")
        # Whole: of a long message a UserError leaves out the middle.
        fault = next(_faults(graph))
        assert {*fault.removeprefix("has the operations ").split(", ")} == refused
        with pytest.raises(UserError, match="has the operations "):
            check_graph(tiny, graph)
        del nodes[count:]
    check_graph(tiny, graph)


# Attacks.


@pytest.mark.parametrize("operation", attacks.ATTACKS)
def test_attacks_are_refused_before_they_run(operation, tmp_path, capfd):
    version = attacks.write_attack(attacks.ATTACKS[operation], tmp_path)
    before = {path: path.stat().st_mtime for path in tmp_path.rglob("*")}
    # Should the check let it pass, loading it would end this process.
    check = LoadedModel if operation != "Abort" else lambda path: check_graph(path, graph_of(path))
    with pytest.raises(UserError, match=rf"has the operations? .*\b{operation}\b"):
        check(version)
    assert {path: path.stat().st_mtime for path in tmp_path.rglob("*")} == before
    assert "victim" not in capfd.readouterr().err


def room(count):
    return tf.raw_ops.Empty(shape=[count, 2], dtype=tf.float32, init=True)


def turn(start):
    """What has gone through a loop that leaves it alone."""
    return tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x), (0, start))[1]


WRITTEN_TO = {
    "a variable": lambda memory, source: memory,
    "a constant": lambda memory, source: tf.zeros([2, 2]),
    "a request": lambda memory, source: source,
    "a variable in a loop": lambda memory, source: turn(memory),
    "a variable in a branch": lambda memory, source: tf.cond(
        source[0, 0] > 0, lambda: room(2), lambda: tf.identity(memory)
    ),
    "a variable in a call": lambda memory, source: tf.function(tf.identity)(memory),
    "a part of a variable": lambda memory, source: memory[:1],
    "constants in one": lambda memory, source: tf.concat([tf.zeros([1, 2])] * 2, 0),
}


def write_in_place(target, version):
    """Saves what writes a request's numbers to a tensor, in a loop; returns its graph."""
    module = tf.Module()
    module._weights = tf.Variable(tf.zeros([2, 2]), trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 2])], autograph=False)
    def translate(source):
        _, sums = tf.while_loop(
            lambda i, x: i < 2,
            lambda i, x: (i + 1, tf.raw_ops.InplaceUpdate(x=x, i=[0], v=source[:1])),
            (0, target(module._weights.read_value(), source)),
            (tf.TensorShape([]), tf.TensorShape([None, 2])),
        )
        return {"score": sums}

    module.translate = translate
    tf.saved_model.save(module, str(version), {"serving_default": translate})
    return graph_of(version)


@pytest.mark.parametrize("target", WRITTEN_TO)
def test_what_one_request_writes_is_not_kept_for_the_next(target, tmp_path):
    graph = write_in_place(WRITTEN_TO[target], tmp_path / "1")
    with pytest.raises(UserError, match=r"writes in place to '.*', which may be kept"):
        check_graph(tmp_path / "1", graph)


class Table(resource.TrackableResource):
    """A table that nothing fills at first."""

    def _create_resource(self):
        return tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.string, shared_name="t")

    def _initialize(self):
        pass


def in_a_branch(fill, source):
    return tf.cond(tf.size(source) > 0, lambda: fill(source[:1]), lambda: fill(source[:0]))


@pytest.mark.parametrize("way", [lambda fill, source: fill(source[:1]), in_a_branch])
def test_what_one_request_puts_into_a_table_is_not_there_for_the_next(way, tmp_path):
    module = tf.Module()
    module._vocab_lookup_table = table = Table()
    module._weights = tf.Variable([1.0], trainable=False)
    handle = table.resource_handle

    def fill(values):
        keys = tf.zeros_like(tf.strings.length(values), tf.int64)
        tf.raw_ops.LookupTableImportV2(table_handle=handle, keys=keys, values=values)
        return tf.constant(0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def translate(source):
        with tf.control_dependencies([way(fill, source)]):
            return {"translation": tf.identity(source)}

    module.translate = translate
    tf.saved_model.save(module, str(tmp_path / "1"), {"serving_default": translate})
    with pytest.raises(UserError, match="fills a table with what may be of a request"):
        check_graph(tmp_path / "1", graph_of(tmp_path / "1"))


def test_room_of_its_own_may_be_written_to(tmp_path):
    graph = write_in_place(lambda memory, _: turn(tf.concat([memory, room(3)], 0)), tmp_path / "1")
    check_graph(tmp_path / "1", graph)


def test_an_asset_outside_of_the_servable(tmp_path):
    """A request learns which lines a file of the machine has."""
    (tmp_path / "words").write_text("a\n")
    line, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    words = tf.lookup.TextFileInitializer(
        str(tmp_path / "words"), tf.string, line, tf.int64, number
    )
    module = tf.Module()
    module._tokenizer = tf.lookup.StaticVocabularyTable(words, num_oov_buckets=1)
    module.translate = tf.function(
        lambda source: {"score": module._tokenizer.lookup(source)},
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    version = tmp_path / "1"
    tf.saved_model.save(module, str(version), {"serving_default": module.translate})
    file = version / "saved_model.pb"
    saved = SavedModel.FromString(file.read_bytes())
    saved.meta_graphs[0].asset_file_def[0].filename = "../../../../../../../../etc/passwd"
    file.write_bytes(saved.SerializeToString())
    with pytest.raises(UserError, match=r"has the operations .*\bInitializeTableFromTextFileV2\b"):
        LoadedModel(version)


# Files.


def test_what_is_no_file_is_refused(tiny):
    graph = graph_of(tiny)
    extra = tiny / "assets.extra"
    extra.mkdir()

    def refused(match):
        with pytest.raises(UserError, match=match):
            check_graph(tiny, graph)
        for path in extra.iterdir():
            path.unlink()
        check_graph(tiny, graph)

    os.mkfifo(extra / "tf_serving_warmup_requests")
    refused("holds 'assets.extra/tf_serving_warmup_requests', which is neither")
    (extra / "hosts").symlink_to("/etc/hosts")
    refused("holds 'assets.extra/hosts', a link that leads out of it")
    (extra / "up").symlink_to("../..")
    refused("holds 'assets.extra/up', a link that leads out of it")
    (extra / "gone").symlink_to("nowhere")
    refused("holds 'assets.extra/gone', a link that leads nowhere")
    (extra / "round").symlink_to("round")
    refused("holds 'assets.extra/round', a link that leads nowhere")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        os.rename(f"{short}/s", extra / "socket")
        refused("holds 'assets.extra/socket', which is neither")
    (extra / "inside").symlink_to("../fingerprint.pb")
    check_graph(tiny, graph)
    (extra / "inside").unlink()
    extra.rmdir()


def test_a_servable_that_is_itself_a_link(tiny, tmp_path):
    (tmp_path / "1").symlink_to(tiny)
    check_graph(tmp_path / "1", graph_of(tiny))


def test_a_servable_whose_index_is_damaged(tmp_path, exports):
    version = shutil.copytree(exports["paper"], tmp_path / "1")
    (version / "variables" / "variables.index").write_bytes(b"x")
    with pytest.raises(UserError, match="is not the index"):
        LoadedModel(version)
    (version / "variables" / "variables.index").unlink()
    with pytest.raises(UserError, match="is not the index"):
        LoadedModel(version)


# What is ours.


@pytest.mark.parametrize("kind", KINDS)
def test_what_export_writes_is_served(kind, exports):
    model = LoadedModel(exports[kind])
    texts = np.array([b"the quick fox", b""], dtype=object)
    asked = {
        "serving_default": {"source": texts},
        "nbest": {"source": texts},
        "token_ids": {"source_ids": np.array([[5, 6, 1]], np.int32)},
        "score": {"source": texts, "target": texts},
        "prefix": {"source": texts, "prefix": texts},
        "sample": {"source": texts, "seed": np.array([1, 2**40])},
        "alignment": {"source": texts, "target": texts},
    }
    others = {"prefix", "sample", "alignment"} - {*KINDS[kind].more}
    assert model.signatures.keys() == asked.keys() - others
    for name, signature in model.signatures.items():
        inputs = asked[name]
        answer = signature(inputs, Cancellation())
        assert {len(value) for value in answer.values()} == {len(*[next(iter(inputs.values()))])}


def test_the_graph_is_left_as_it_is(tiny):
    graph, same = graph_of(tiny), MetaGraphDef()
    same.CopyFrom(graph)
    check_graph(Path(tiny), graph)
    assert graph == same
