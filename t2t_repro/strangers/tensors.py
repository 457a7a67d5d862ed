"""Tensors that are written in a graph: numbers and texts, and as many as they claim to be."""

import math
from collections.abc import Iterable, Iterator

from tensorflow.core.framework.full_type_pb2 import (
    TFT_ARRAY,
    TFT_INT32,
    TFT_INT64,
    TFT_PRODUCT,
    TFT_SHAPE_TENSOR,
    TFT_TENSOR,
    FullTypeDef,
)
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.types_pb2 import (
    DT_BFLOAT16,
    DT_BOOL,
    DT_DOUBLE,
    DT_FLOAT,
    DT_HALF,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_STRING,
    DT_UINT8,
    DT_UINT16,
    DT_UINT32,
    DT_UINT64,
)

NUMBERS = {
    DT_BFLOAT16, DT_BOOL, DT_DOUBLE, DT_FLOAT, DT_HALF, DT_INT8, DT_INT16, DT_INT32, DT_INT64,
    DT_UINT8, DT_UINT16, DT_UINT32, DT_UINT64,
}  # fmt: skip
VALUES = NUMBERS | {DT_STRING}

_MAX_RANK = 8
_MAX_REPEATED = 2**24


def other_tensors(tensors: Iterable[TensorProto]) -> Iterator[str]:
    """What no servable of ours has, in words.

    A tensor of one type is a handle: of another model's variables, if it says so. And one that is
    written as a single value is as large as it claims to be.
    """
    repeated = 0
    for tensor in tensors:
        dims = [dim.size for dim in tensor.tensor_shape.dim]
        if tensor.dtype not in VALUES:
            yield f"has a tensor of the type {tensor.dtype}"
        elif tensor.tensor_shape.unknown_rank or len(dims) > _MAX_RANK or min([0, *dims]) < 0:
            yield f"has a tensor of the shape {dims[:_MAX_RANK]}"
        else:
            repeated += max(math.prod(dims) - _written(tensor), 0)
    if repeated > _MAX_REPEATED:
        yield f"has tensors of {repeated:,} values that are not there"


def _written(tensor: TensorProto) -> int:
    """How many bytes or values there are; at least as many as values."""
    fields = (value for field, value in tensor.ListFields() if field.name.endswith("_val"))
    return len(tensor.tensor_content) + sum(map(len, fields))


def has_other_type(node: NodeDef) -> bool:
    """Whether a node notes a type of its result that no servable of ours has.

    TensorFlow trusts it: of a type that cannot be, the process ends. Sizes and lists have one.
    """
    if not node.HasField("experimental_type"):
        return False
    types = list(_nested(node.experimental_type))
    if node.op == "Shape":
        return types not in (
            [TFT_PRODUCT, TFT_SHAPE_TENSOR, kind] for kind in (TFT_INT32, TFT_INT64)
        )
    return "TensorList" not in node.op or types[:-1] != [TFT_PRODUCT, TFT_ARRAY, TFT_TENSOR]


def _nested(full: FullTypeDef) -> Iterator[int]:
    """Its kind, and those of what it holds."""
    yield full.type_id
    for held in full.args:
        yield from _nested(held)
