"""Servables of ours that were changed: other ways to files and memory than an operation."""

import re

import pytest
from tensorflow.core.framework import full_type_pb2, types_pb2
from tensorflow.core.protobuf.config_pb2 import ConfigProto

from t2t_repro.errors import UserError
from t2t_repro.strangers.graph import check_graph
from tests.strangers.exports import KINDS, graph_of, write_export


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    return write_export(KINDS["paper"], tmp_path_factory.mktemp("exported"))


def node(graph, op):
    """A node of the graph itself."""
    return next(node for node in graph.graph_def.node if node.op == op)


def of_function(graph, op):
    """A node of a function that requests run."""
    for function in graph.graph_def.library.function:
        if "traced" not in function.signature.name:
            for found in function.node_def:
                if found.op == op:
                    return found
    raise LookupError(op)


def savers(graph, part="restore"):
    """The name of the function that restores, or saves, variables at any path."""
    library = graph.graph_def.library.function
    return next(f.signature.name for f in library if f"traced_{part}" in f.signature.name)


def obj(graph, kind):
    """An object of a kind."""
    return next(o for o in graph.object_graph_def.nodes if o.WhichOneof("kind") == kind)


def call_the_saver(graph):
    of_function(graph, "StatefulPartitionedCall").attr["f"].func.name = savers(graph)


def call_the_saver_in_a_loop(graph):
    of_function(graph, "While").attr["body"].func.name = savers(graph, "save")


def call_the_saver_by_its_name(graph):
    """A node of an operation that a function is named after calls the function."""
    old = savers(graph)
    for function in graph.graph_def.library.function:
        if function.signature.name == old:
            function.signature.name = "AddV2"
    for one in graph.graph_def.node:
        if one.attr["f"].func.name == old:
            one.attr["f"].func.name = "AddV2"


def offer_the_saver(graph):
    of_signature = graph.object_graph_def.concrete_functions
    of_signature[savers(graph)].bound_inputs.append(0)


def offer_the_saver_as_an_object(graph):
    obj(graph, "function").function.concrete_functions[0] = savers(graph)


def offer_the_saver_as_a_signature(graph):
    signature = obj(graph, "bare_concrete_function").bare_concrete_function
    signature.concrete_function_name = savers(graph)


def offer_the_savers_node(graph):
    outputs = graph.signature_def["serving_default"].outputs
    outputs["translation"].name = graph.saver_def.save_tensor_name


def call_a_signature_the_saver(graph):
    """What restores may be in the function, if the loader is told that it restores."""
    name = graph.signature_def["serving_default"].outputs["translation"].name.split(":")[0]
    graph.saver_def.restore_op_name = name
    of_function(graph, "While").op = "RestoreV2"


def initialise_with_the_saver(graph):
    names = graph.collection_def["saved_model_main_op"].node_list.value
    names[0] = graph.saver_def.restore_op_name


def initialise_after_the_saver(graph):
    node(graph, "NoOp").input.append(f"^{graph.saver_def.restore_op_name}")


def read_from_the_saver(graph):
    node(graph, "StatefulPartitionedCall").input[0] = graph.saver_def.save_tensor_name


def name_a_gradient(graph):
    graph.graph_def.library.gradient.add(function_name=savers(graph), gradient_func=savers(graph))


def register_a_gradient(graph):
    added = graph.graph_def.library.registered_gradients.add()
    added.gradient_func, added.registered_op_type = savers(graph), "AddV2"


def replace_a_function_by_device(graph):
    graph.graph_def.library.function[0].attr["api_implements"].s = b"translate"


def share_an_argument(graph):
    graph.graph_def.library.function[0].resource_arg_unique_id[0] = 1


def call_with_attributes(graph):
    node(graph, "StatefulPartitionedCall").attr["f"].func.attr["f"].func.name = savers(graph)


def call_one_of_several(graph):
    added = of_function(graph, "StatelessIf").attr["branches"].list.func.add()
    added.name = savers(graph)


def note_a_function(graph):
    of_function(graph, "Identity").attr["_class"].func.name = savers(graph)


def note_xla(graph):
    of_function(graph, "Identity").attr["_XlaMustCompile"].b = True


def run_elsewhere(graph):
    of_function(graph, "Identity").device = "/job:worker/replica:0/task:0/device:CPU:0"


def choose_an_executor(graph):
    of_function(graph, "StatefulPartitionedCall").attr["executor_type"].s = b"SINGLE_THREADED"


def configure(graph):
    config = ConfigProto()
    config.graph_options.rewrite_options.custom_optimizers.add(name="of_a_stranger")
    of_function(graph, "StatefulPartitionedCall").attr[
        "config_proto"
    ].s = config.SerializeToString()


def configure_nonsense(graph):
    of_function(graph, "StatefulPartitionedCall").attr["config_proto"].s = b"\xff\xff"


def forge_a_handle(graph):
    """Of another model's variables."""
    tensor = of_function(graph, "Const").attr["value"].tensor
    tensor.dtype = types_pb2.DT_RESOURCE


def forge_a_handle_by_its_fields(graph):
    tensor = of_function(graph, "Const").attr["value"].tensor
    tensor.resource_handle_val.add(container="localhost", name="another")


def nest_a_graph(graph):
    of_function(graph, "Const").attr["value"].tensor.variant_val.add(type_name="any")


def claim_memory(graph):
    tensor = of_function(graph, "Const").attr["value"].tensor
    del tensor.tensor_shape.dim[:]
    for size in (2**20, 2**20):
        tensor.tensor_shape.dim.add(size=size)


def claim_less_than_nothing(graph):
    of_function(graph, "Const").attr["value"].tensor.tensor_shape.dim.add(size=-1)


def share_memory(graph):
    """What other requests have left there."""
    del of_function(graph, "Empty").attr["init"]


def note_another_type(graph):
    """With which TensorFlow ends the process."""
    of_function(graph, "While").experimental_type.type_id = full_type_pb2.TFT_FOR_EACH


def note_another_type_of_sizes(graph):
    (whole,) = of_function(graph, "Shape").experimental_type.args
    whole.args[0].type_id = full_type_pb2.TFT_DATASET


def ask_for_a_handle(graph):
    (source,) = graph.signature_def["serving_default"].inputs.values()
    source.dtype = types_pb2.DT_RESOURCE


def spoil_the_subwords(graph):
    for model in (node(graph, "SentencepieceOp"), of_function(graph, "SentencepieceOp")):
        model.attr["model"].s = model.attr["model"].s[:-1000]


def tell_the_terminal(graph):
    of_function(graph, "Identity").op = "\x1b]0;victim\x07"


def tell_the_terminal_by_a_function(graph):
    graph.graph_def.library.function.add().signature.name = "\x1b]0;victim\x07"


def tell_the_terminal_by_a_node(graph):
    of_function(graph, "Identity").name = "\x1b]0;victim\x07"


def keep_a_variable_of_handles(graph):
    obj(graph, "variable").variable.dtype = types_pb2.DT_VARIANT


def be_of_tensorflow_1(graph):
    graph.ClearField("object_graph_def")


def make_an_optimizer(graph):
    obj(graph, "user_object").user_object.identifier = "optimizer"


def make_a_registered_object(graph):
    obj(graph, "user_object").registered_name = "a.Class"


def make_an_asset(graph):
    obj(graph, "user_object").asset.asset_file_def_index = 0


def capture_a_tensor(graph):
    obj(graph, "user_object").captured_tensor.name = "Const:0"


def name_a_file(graph):
    graph.asset_file_def.add(filename="../../../../etc/passwd")


def make_nothing(graph):
    obj(graph, "user_object").ClearField("kind")


def save_in_its_own_way(graph):
    obj(graph, "variable").saveable_objects["x"].save_function = 3


def replace_a_method(graph):
    obj(graph, "user_object").children.add(node_id=3, local_name="__class__")


def replace_a_dependency(graph):
    obj(graph, "function").dependencies.add(node_id=3, local_name="_capture_by_value")


def make_a_slot(graph):
    obj(graph, "user_object").slot_variables.add(slot_name="x")


def be_of_another_type(graph):
    signature = graph.object_graph_def.concrete_functions[
        obj(graph, "bare_concrete_function").bare_concrete_function.concrete_function_name
    ]
    signature.output_signature.type_spec_value.type_spec_class_name = "a.Class"


CHANGES = {
    call_the_saver: "that calls '__inference__traced_restore",
    call_the_saver_in_a_loop: "that calls '__inference__traced_save",
    call_the_saver_by_its_name: "'AddV2', named after an operation",
    offer_the_saver: "has objects that call",
    offer_the_saver_as_an_object: "has objects that call",
    offer_the_saver_as_a_signature: "has objects that call",
    offer_the_savers_node: "has a signature 'serving_default'",
    call_a_signature_the_saver: "has the operation",
    initialise_with_the_saver: "has a collection 'saved_model_main_op'",
    initialise_after_the_saver: "has a node 'NoOp' that reads from the saver's",
    read_from_the_saver: "that reads from the saver's",
    name_a_gradient: "has the field FunctionDefLibrary.gradient",
    register_a_gradient: "has the field FunctionDefLibrary.registered_gradients",
    replace_a_function_by_device: "with the attribute 'api_implements'",
    share_an_argument: "has the field FunctionDef.resource_arg_unique_id",
    call_with_attributes: "has the field NameAttrList.attr",
    call_one_of_several: "has the field AttrValue.ListValue.func",
    note_a_function: "that calls '__inference__traced_restore",
    note_xla: "with the attribute '_XlaMustCompile'",
    run_elsewhere: "for the device '/job:worker",
    choose_an_executor: "with a text as 'executor_type'",
    configure: "with the field ConfigProto.graph_options",
    configure_nonsense: "with the field config_proto",
    forge_a_handle: "has a tensor of the type 20",
    forge_a_handle_by_its_fields: "has the field TensorProto.resource_handle_val",
    nest_a_graph: "has the field TensorProto.variant_val",
    claim_memory: "has tensors of 1,099,",
    claim_less_than_nothing: "has a tensor of the shape",
    share_memory: "has a node Empty that is not filled",
    note_another_type: "has a node While of another type",
    note_another_type_of_sizes: "has a node Shape of another type",
    ask_for_a_handle: "has a signature 'serving_default' with the tensor",
    spoil_the_subwords: "has subwords of SentencePiece that are damaged",
    tell_the_terminal: re.escape(r"has the operation '\x1b]0;victim\x07'; expected"),
    tell_the_terminal_by_a_function: re.escape(r"has a function '\x1b]0;victim\x07'"),
    tell_the_terminal_by_a_node: re.escape(r"of the name '\x1b]0;victim\x07'"),
    keep_a_variable_of_handles: "has a variable of the type 21",
    be_of_tensorflow_1: "has no objects",
    make_an_optimizer: "has an object of the class 'optimizer'",
    make_a_registered_object: "has an object of the class 'a.Class'",
    make_an_asset: "has the field SavedObject.asset",
    name_a_file: "has the field MetaGraphDef.asset_file_def",
    capture_a_tensor: "has the field SavedObject.captured_tensor",
    make_nothing: "has an object of the class None",
    save_in_its_own_way: "has the field SavedObject.saveable_objects",
    replace_a_method: "has an object that is called '__class__'",
    replace_a_dependency: "has an object that is called '_capture_by_value'",
    make_a_slot: "has the field SavedObject.slot_variables",
    be_of_another_type: "has the field StructuredValue.type_spec_value",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_other_ways_in(change, version):
    graph = graph_of(version)
    change(graph)
    with pytest.raises(UserError, match=CHANGES[change]):
        check_graph(version, graph)
