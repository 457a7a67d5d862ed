"""What nodes of a graph name: the functions that they call, and where their inputs come from."""

from collections.abc import Iterable

from tensorflow.core.framework.node_def_pb2 import NodeDef


def called(nodes: Iterable[NodeDef]) -> list[str]:
    """Returns the names of the functions that nodes call."""
    return [
        value.func.name for node in nodes for value in node.attr.values() if value.HasField("func")
    ]


def data_inputs(node: NodeDef) -> list[str]:
    """Returns the tensors that a node computes with: not those that it only waits for."""
    return [name for name in node.input if not name.startswith("^")]


def node_of(tensor: str) -> str:
    """Returns the name of the node that a tensor, or a control input, comes from."""
    return tensor.removeprefix("^").partition(":")[0]
