"""What a program needs of memory, as XLA lays it out: the same on every machine of a kind."""

import tensorflow as tf
from tensorflow.compiler.xla.service import hlo_pb2


def xla_bytes(function, *args):
    """The bytes of all that a function keeps while it runs, arguments and results left out."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    describe = compiled.experimental_get_compiler_ir(*args)
    module = hlo_pb2.HloProto.FromString(describe(stage="optimized_hlo_proto_serialized"))
    buffers = module.buffer_assignment.buffer_allocations
    return sum(
        buffer.size
        for buffer in buffers
        if not buffer.is_entry_computation_parameter and not buffer.maybe_live_out
    )
