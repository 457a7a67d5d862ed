"""What fills a servable's tables: constants, once, and nothing of a request.

A table outlives the request: what one client's request put there would be found by the next one's.
"""

from collections.abc import Iterator

from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from t2t_repro.strangers.nodes import called, data_inputs, node_of

_FILLS = "LookupTableImportV2"
_GIVES_CONSTANTS = {"Const", "HashTableV2"}


def other_fillings(graph: MetaGraphDef) -> Iterator[str]:
    """What may fill a table with something else, in words.

    A function that fills one may be called from outside of the functions alone, with constants.

    Args:
        graph: whose functions have known operations.
    """
    library = graph.graph_def.library.function
    filling = {
        function.signature.name: len(function.signature.input_arg)
        for function in library
        if any(node.op == _FILLS for node in function.node_def)
    }
    fault = "fills a table with what may be of a request"
    for function in library:
        if not filling.keys().isdisjoint(called(function.node_def)):
            yield f"has a function {function.signature.name!r} that {fault}"
    nodes = graph.graph_def.node
    constants = {node.name for node in nodes if node.op in _GIVES_CONSTANTS}
    for node in nodes:
        given = set(map(node_of, data_inputs(node)))
        if not filling.keys().isdisjoint(called([node])) and not given <= constants:
            yield f"has a node {node.name!r} that {fault}"
    for name, function in graph.object_graph_def.concrete_functions.items():
        # Where the objects of the graph are all its arguments, no caller gives it any.
        if filling.get(name, len(function.bound_inputs)) != len(function.bound_inputs):
            yield f"has a function {name!r} that {fault}"
