"""The fields that the messages of a servable may have: those that `export` writes.

What TensorFlow's format knows besides stays out: gradients, assets, functions that save and restore
parts of the model, handles of resources, types of one's own, ...
"""

from collections.abc import Iterator

from google.protobuf.message import Message

_FIELDS = {
    message: frozenset(fields.split())
    for message, fields in {
        "AttrValue": "b f func i list s shape tensor type",
        "AttrValue.ListValue": "b f i s shape type",
        "CollectionDef": "node_list",
        "CollectionDef.NodeList": "value",
        # How the machine computed that wrote it; a GPU is not there everywhere.
        "ConfigProto": "allow_soft_placement device_count experimental gpu_options "
        "inter_op_parallelism_threads intra_op_parallelism_threads pluggable_device_options",
        "DictValue": "fields",
        "FullTypeDef": "args s type_id",
        "FunctionDef": "arg_attr attr control_ret node_def ret signature",
        "FunctionDef.ArgAttrs": "attr",
        "FunctionDefLibrary": "function",
        "FunctionSpec": "fullargspec input_signature",
        "GPUOptions": "allow_growth experimental visible_device_list",
        "GraphDef": "library node versions",
        "ListValue": "values",
        "MetaGraphDef": "collection_def graph_def meta_info_def object_graph_def saver_def "
        "signature_def",
        "MetaGraphDef.MetaInfoDef": "stripped_default_attrs stripped_op_list tags "
        "tensorflow_git_version tensorflow_version",
        "NameAttrList": "name",
        "NamedTupleValue": "name values",
        "NodeDef": "attr device experimental_type input name op",
        "OpDef": "attr control_output input_arg is_aggregate is_commutative "
        "is_distributed_communication is_stateful name output_arg",
        "OpDef.ArgDef": "experimental_full_type handle_data name number_attr type type_attr "
        "type_list_attr",
        "OpDef.AttrDef": "allowed_values default_value has_minimum minimum name type",
        "OpList": "op",
        "PairValue": "key value",
        "ResourceHandleProto.DtypeAndShape": "dtype shape",
        "SavedBareConcreteFunction": "allowed_positional_arguments argument_keywords "
        "concrete_function_name function_spec",
        "SavedConcreteFunction": "bound_inputs canonicalized_input_signature output_signature",
        "SavedConstant": "operation",
        "SavedFunction": "concrete_functions function_spec",
        "SavedObject": "bare_concrete_function children constant dependencies function "
        "registered_name resource user_object variable",
        "SavedObjectGraph": "concrete_functions nodes",
        "SavedUserObject": "identifier version",
        "SavedVariable": "dtype name shape",
        "SaverDef": "filename_tensor_name restore_op_name save_tensor_name version",
        "SignatureDef": "inputs method_name outputs",
        "StructuredValue": "dict_value list_value named_tuple_value none_value string_value "
        "tensor_spec_value tuple_value",
        "TensorInfo": "dtype name tensor_shape",
        "TensorProto": "bool_val double_val dtype float_val half_val int64_val int_val string_val "
        "tensor_content tensor_shape uint32_val uint64_val",
        "TensorShapeProto": "dim unknown_rank",
        "TensorShapeProto.Dim": "size",
        "TensorSpecProto": "dtype name shape",
        "TrackableObjectGraph.TrackableObject.ObjectReference": "local_name node_id",
        "TupleValue": "values",
        "VersionDef": "min_consumer producer",
    }.items()
}


def other_fields(message: Message) -> Iterator[str]:
    """The fields that no servable of ours has, of a message and of all messages in it."""
    left = [message]
    while left:
        message = left.pop()
        name = message.DESCRIPTOR.full_name.removeprefix("tensorflow.")
        allowed = _FIELDS.get(name, frozenset())
        for field, value in message.ListFields():
            if field.name not in allowed:
                yield f"{name}.{field.name}"
            elif isinstance(value, Message):
                left.append(value)
            elif field.message_type is not None:
                values = value.values() if hasattr(value, "values") else value
                left += (one for one in values if isinstance(one, Message))
