"""Signatures of no model, for what reads requests."""

from typing import Any

import tensorflow as tf

from t2t_repro.serving.signature import Signature


def signature_of(**inputs: tuple[tf.DType, int]) -> Signature:
    """A signature that takes inputs of a type and so many axes, and gives the first again."""
    definition = tf.compat.v1.MetaGraphDef().signature_def["made"]
    for name, (dtype, axes) in inputs.items():
        definition.inputs[name].dtype = dtype.as_datatype_enum
        for _ in range(axes):
            definition.inputs[name].tensor_shape.dim.add(size=-1)
    first = next(iter(inputs))
    definition.outputs[first].CopyFrom(definition.inputs[first])
    function: Any = None
    return Signature("made", definition, function)
