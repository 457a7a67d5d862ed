"""A SavedModel of anyone, looked through before TensorFlow loads and runs it.

A graph is a program: TensorFlow has operations that read and write any file of the machine, and a
SavedModel says in many places which functions run, and on what. What is not known to be harmless is
refused: a servable has what `export` writes, and mathematics. How long it computes, and how much
memory that takes, cannot be seen in it.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_INVALID
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from t2t_repro.errors import UserError
from t2t_repro.strangers.allowed_fields import other_fields
from t2t_repro.strangers.allowed_operations import (
    IN_FUNCTIONS,
    IN_GRAPH,
    IN_SAVER,
    OF_ONES_OWN,
    RANDOM,
    STRUCTURE,
)
from t2t_repro.strangers.checkpoint_index import check_index
from t2t_repro.strangers.nodes import called, node_of
from t2t_repro.strangers.object_graph import other_objects
from t2t_repro.strangers.plain_folder import not_plain
from t2t_repro.strangers.sentencepiece_file import check_sentencepiece
from t2t_repro.strangers.tables import other_fillings
from t2t_repro.strangers.tensors import VALUES, has_other_type, other_tensors
from t2t_repro.strangers.written_in_place import other_targets

_OF_FUNCTIONS = IN_FUNCTIONS | OF_ONES_OWN | RANDOM | STRUCTURE

_NOTES = {
    "_class", "_collective_manager_ids", "_gradient_op_type", "_has_manual_control_dependencies",
    "_lower_using_switch_merge", "_num_original_outputs", "_output_shapes",
    "_read_only_resource_inputs",
}  # fmt: skip
"""What TensorFlow notes of operations, in attributes that are not the operation's."""

_FUNCTION_NOTES = {"_construction_context", "_input_shapes"}
_ARGUMENT_NOTES = {"_output_shapes", "_user_specified_name"}

_CALLS = {"body", "cond", "else_branch", "f", "then_branch"}
"""Attributes that name a function."""

_TEXTS = {
    "align", "bad_indices_policy", "config_proto", "data_format", "debug_name", "equation",
    "errors", "input_encoding", "message", "mode", "model", "output_encoding",
    "output_row_partition_type", "padding", "pattern", "rewrite", "row_partition_types",
    "shared_name", "suffix_indicator", "unknown_token",
}  # fmt: skip
"""Attributes that hold texts or bytes."""

_NAME = re.compile(r"[\w.>/-]+", re.ASCII)
_DEVICE = re.compile(r"((/job:localhost/replica:0/task:0)?/device:(CPU|GPU):(\d+|\*))?")


class _Place(NamedTuple):
    """Nodes that belong together.

    Attributes:
        nodes: these.
        operations: what they may be.
        functions: names of those that they may call.
    """

    nodes: Iterable[NodeDef]
    operations: Collection[str]
    functions: Collection[str]


def check_graph(path: Path, graph: MetaGraphDef) -> None:
    """Makes sure that a servable translates and does nothing else, as ours do.

    Args:
        path: the SavedModel's directory.
        graph: the one in it.

    Raises:
        UserError: it has an operation or anything else that no servable of ours has; or its
            directory holds more than files; or the index of its variables is damaged.
    """
    faults = chain((f"holds {found}" for found in not_plain(path)), _faults(graph))
    if fault := next(faults, None):
        raise UserError(
            f"{path} {fault}; expected what export writes, with nothing but mathematics in parts "
            "of your own. TensorFlow Serving checks nothing: use it if you trust this servable."
        )
    check_index(path / "variables" / "variables")


def _faults(graph: MetaGraphDef) -> Iterator[str]:
    """What no servable of ours has, in words; a check relies on those before it."""
    saver = _saver_nodes(graph)
    savers_functions = set(called(node for node in graph.graph_def.node if node.name in saver))
    library = graph.graph_def.library.function
    functions = {function.signature.name for function in library} - savers_functions
    places = list(_places(graph, saver, savers_functions, functions))
    nodes = [node for place in places for node in place.nodes]
    yield from _other_operations(places)
    yield from (f"has the field {field}" for field in other_fields(graph))
    for place in places:
        for node in place.nodes:
            yield from _of_node(node, place.functions)
    for function in library:
        yield from _of_function(function)
    yield from _readers(graph, saver)
    yield from other_objects(graph.object_graph_def, functions)
    values = chain.from_iterable(node.attr.values() for node in nodes)
    yield from other_tensors(value.tensor for value in values if value.HasField("tensor"))
    yield from _of_subwords(nodes)
    entries = {*called(graph.graph_def.node), *graph.object_graph_def.concrete_functions}
    yield from other_targets(library, entries)
    yield from other_fillings(graph)


def _places(
    graph: MetaGraphDef,
    saver: Collection[str],
    savers_functions: Collection[str],
    functions: Collection[str],
) -> Iterator[_Place]:
    nodes = graph.graph_def.node
    yield _Place([node for node in nodes if node.name in saver], IN_GRAPH, savers_functions)
    yield _Place([node for node in nodes if node.name not in saver], IN_GRAPH, functions)
    for function in graph.graph_def.library.function:
        if function.signature.name in savers_functions:
            yield _Place(function.node_def, IN_SAVER, ())
        else:
            yield _Place(function.node_def, _OF_FUNCTIONS, functions)


def _saver_nodes(graph: MetaGraphDef) -> set[str]:
    """Names of the nodes that save and restore variables, for loaders in C++."""
    return {node_of(graph.saver_def.save_tensor_name), node_of(graph.saver_def.restore_op_name)}


def _other_operations(places: Iterable[_Place]) -> Iterator[str]:
    """All at once: whoever wrote a part of the model wants to know all of them."""
    found = {node.op for place in places for node in place.nodes if node.op not in place.operations}
    if found:
        # What is no name could tell a terminal what to do.
        names = (name if _NAME.fullmatch(name) else repr(name) for name in sorted(found))
        yield f"has the operation{'s' * (len(found) > 1)} {', '.join(names)}"


def _of_node(node: NodeDef, functions: Collection[str]) -> Iterator[str]:
    what = f"has a node {node.op}"
    if not _NAME.fullmatch(node.name):
        yield f"{what} of the name {node.name!r}"
    if not _DEVICE.fullmatch(node.device):
        yield f"{what} for the device {node.device!r}"
    if has_other_type(node):
        yield f"{what} of another type"
    for name, value in node.attr.items():
        is_note = name.startswith("_")
        if is_note and name not in _NOTES:
            yield f"{what} with the attribute {name!r}"
        if value.HasField("func") and (name not in _CALLS or value.func.name not in functions):
            yield f"{what} that calls {value.func.name!r}"
        if (value.s or value.list.s) and not is_note and name not in _TEXTS:
            yield f"{what} with a text as {name!r}"
        if name == "config_proto":
            yield from (f"{what} with the field {field}" for field in _of_config(value.s))
    # What is not filled holds what was in memory before: of other requests, say.
    if node.op == "Empty" and not ("init" in node.attr and node.attr["init"].b):
        yield f"{what} that is not filled"


def _of_config(content: bytes) -> Iterator[str]:
    try:
        yield from other_fields(ConfigProto.FromString(content))
    except DecodeError:
        yield "config_proto"


def _of_function(function: FunctionDef) -> Iterator[str]:
    what = f"has a function {function.signature.name!r}"
    # A node of an operation that a function is named after calls the function.
    if function.signature.name in IN_GRAPH | IN_SAVER | _OF_FUNCTIONS:
        yield f"{what}, named after an operation"
    if not _NAME.fullmatch(function.signature.name):
        yield f"{what}, which is no name"
    notes = chain.from_iterable(argument.attr for argument in function.arg_attr.values())
    for name in {*function.attr} - _FUNCTION_NOTES | {*notes} - _ARGUMENT_NOTES:
        yield f"{what} with the attribute {name!r}"


def _readers(graph: MetaGraphDef, saver: Collection[str]) -> Iterator[str]:
    """What runs the saver's nodes, besides a loader; and signatures of anything but values."""
    for node in graph.graph_def.node:
        if any(node_of(name) in saver for name in node.input):
            yield f"has a node {node.name!r} that reads from the saver's"
    for name, signature in graph.signature_def.items():
        for tensor in chain(signature.inputs.values(), signature.outputs.values()):
            # What initialises has no value.
            if tensor.dtype not in VALUES | {DT_INVALID} or node_of(tensor.name) in saver:
                yield f"has a signature {name!r} with the tensor {tensor.name!r}"
    for name, collection in graph.collection_def.items():
        if any(node_of(value) in saver for value in collection.node_list.value):
            yield f"has a collection {name!r} of the saver's nodes"


def _of_subwords(nodes: Iterable[NodeDef]) -> Iterator[str]:
    models = {value.s for node in nodes for name, value in node.attr.items() if name == "model"}
    for model in models:
        try:
            check_sentencepiece(model)
        except ValueError as error:
            yield f"has subwords of SentencePiece that are damaged ({error})"
