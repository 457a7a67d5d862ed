"""What a servable writes in place: room that it has made for that, and nothing else.

An operation that writes in place changes the tensor that it is given. Where that is a variable's
value, or a constant, it stays changed: one client's request would be there for the next one's.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.op_def_pb2 import OpDef

from t2t_repro.strangers.nodes import called, data_inputs, node_of

_WRITES = "InplaceUpdate"
_PASS_ON = {"Identity", "Reshape"}

_LOOPS = {"StatelessWhile", "While"}
_BRANCHES = {"If", "StatelessIf"}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}


class _Tensor(NamedTuple):
    """A tensor of a function: "argument" or "node:output:number"."""

    function: str
    name: str


class _Call(NamedTuple):
    """A node that calls a function, and the function that the node is in."""

    function: str
    node: NodeDef


def other_targets(library: Iterable[FunctionDef], entries: Collection[str]) -> Iterator[str]:
    """What is written to in place, and is not known to be room made for that; in words.

    Args:
        library: all functions of a graph.
        entries: names of those that are called from outside of it.
    """
    functions = {function.signature.name: function for function in library}
    program = _Program(functions, entries)
    left = [
        _Tensor(name, target)
        for name, function in functions.items()
        for node in function.node_def
        if node.op == _WRITES
        for target in node.input[:1]
    ]
    seen = set(left)
    while left:
        tensor = left.pop()
        try:
            sources = set(program.sources(tensor)) - seen
        except (LookupError, ValueError):
            yield f"writes in place to {tensor.name!r} of {tensor.function!r}, which may be kept"
            return
        seen |= sources
        left += sources


class _Program:
    """Functions that call each other.

    Args:
        functions: by name.
        entries: names of those that others call too.
    """

    def __init__(self, functions: dict[str, FunctionDef], entries: Collection[str]) -> None:
        self._functions = functions
        self._entries = entries
        self._nodes = {
            name: {node.name: node for node in function.node_def}
            for name, function in functions.items()
        }
        self._calls: dict[str, list[_Call]] = defaultdict(list)
        for name, nodes in self._nodes.items():
            for node in nodes.values():
                for function in called([node]):
                    self._calls[function].append(_Call(name, node))

    def sources(self, tensor: _Tensor) -> list[_Tensor]:
        """The tensors that a tensor may be the same as; none where it is room of its own.

        Raises:
            LookupError, ValueError: that is not known.
        """
        name, _, output = tensor.name.partition(":")
        if not output:
            return self._given(tensor.function, name)
        node = self._nodes[tensor.function][name]
        if node.op == _WRITES or self._is_room(tensor.function, node):
            return []
        if node.op in _PASS_ON:
            return [_Tensor(tensor.function, node.input[0])]
        if node.op not in _LOOPS | _BRANCHES | _CALLS:
            raise ValueError(node.op)
        number = int(output.rpartition(":")[2])
        if node.op in _LOOPS:
            # It may take no turn.
            return [_Tensor(tensor.function, node.input[number]), self._next(node, number)]
        return [self._returned(function, number) for function in called([node])]

    def _is_room(self, function: str, node: NodeDef) -> bool:
        """Whether a node makes a tensor that nothing can keep, not even an optimised graph."""
        if node.op != "ConcatV2":
            return node.op == "Empty"
        names = [node_of(name) for name in data_inputs(node)[:-1]]
        nodes = self._nodes[function]
        return any(name in nodes and nodes[name].op == "Empty" for name in names)

    def _given(self, function: str, argument: str) -> list[_Tensor]:
        """What a function is called with as one of its arguments."""
        number = _single(self._functions[function].signature.input_arg).index(argument)
        if function in self._entries:
            raise ValueError(function)
        found = []
        for caller, node in self._calls[function]:
            inputs = data_inputs(node)[1:] if node.op in _BRANCHES else data_inputs(node)
            found.append(_Tensor(caller, inputs[number]))
            if node.op in _LOOPS:
                found.append(self._next(node, number))
        return found

    def _next(self, loop: NodeDef, number: int) -> _Tensor:
        """What a turn of a loop gives to the next one."""
        return self._returned(loop.attr["body"].func.name, number)

    def _returned(self, function: str, number: int) -> _Tensor:
        """What a function returns as one of its outputs."""
        called = self._functions[function]
        return _Tensor(function, called.ret[_single(called.signature.output_arg)[number]])


def _single(arguments: Sequence[OpDef.ArgDef]) -> list[str]:
    """The names of arguments, each of which is one tensor."""
    if any(argument.number_attr or argument.type_list_attr for argument in arguments):
        raise ValueError("lists")
    return [argument.name for argument in arguments]
