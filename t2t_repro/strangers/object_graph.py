"""The Python objects that a SavedModel has TensorFlow make: those that `export` writes.

A SavedModel names classes of objects, what they are called, and which functions do their parts.
"""

import re
from collections.abc import Collection, Iterator

from tensorflow.core.protobuf.saved_object_graph_pb2 import SavedObject, SavedObjectGraph

from t2t_repro.strangers.tensors import NUMBERS

_CLASSES = {
    "user_object": {""},
    "function": {""},
    "bare_concrete_function": {""},
    "variable": {""},
    "constant": {"tf.TrackableConstant"},
    "resource": {"", "tf.StaticHashTable"},
}
"""Classes that TensorFlow has registered, by kind of object."""

_IDENTIFIERS = {"_generic_user_object", "signature_map", "trackable_list_wrapper"}
"""Classes that TensorFlow makes of user_objects."""

_PARTS = re.compile(
    r"\d+|trace_\d+|capture_\d+|signatures|serving_default|nbest|token_ids|score|prefix|sample"
    r"|alignment|translate|translate_ids|translate_n_best|_source_text|_target_text|_tokenizer|_alphabets"
    r"|_vocab_lookup_table|_model_resource|_weights|_variables"
    r"|_create_resource|_initialize|_initializer|_destroy_resource"
)
"""What an object calls another: TensorFlow sets an attribute of that name."""


def other_objects(objects: SavedObjectGraph, functions: Collection[str]) -> Iterator[str]:
    """What no servable of ours has, in words.

    Args:
        objects: of a servable, with `allowed_fields`.
        functions: names of those that objects may call.
    """
    # TensorFlow would load it in another way, and run the graph itself.
    if not objects.nodes:
        yield "has no objects"
    called = set(objects.concrete_functions)
    for node in objects.nodes:
        yield from _faults(node)
        called.update(node.function.concrete_functions)
        if node.HasField("bare_concrete_function"):
            called.add(node.bare_concrete_function.concrete_function_name)
    if other := called - set(functions):
        yield f"has objects that call {sorted(other)}"


def _faults(node: SavedObject) -> Iterator[str]:
    kind = node.WhichOneof("kind")
    if node.registered_name not in _CLASSES.get(kind, ()):
        yield f"has an object of the class {node.registered_name or kind!r}"
    if kind == "user_object" and node.user_object.identifier not in _IDENTIFIERS:
        yield f"has an object of the class {node.user_object.identifier!r}"
    if kind == "variable" and node.variable.dtype not in NUMBERS:
        yield f"has a variable of the type {node.variable.dtype}"
    for part in (*node.children, *node.dependencies):
        if not _PARTS.fullmatch(part.local_name):
            yield f"has an object that is called {part.local_name!r}"
