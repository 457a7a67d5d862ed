"""How much memory the forward and backward pass take where XLA compiles them, by a formula.

XLA keeps what the backward pass reads and cannot be computed again in passing: of a sum not what
was added, and of a norm no statistics. Seen in the programs that benchmarks/gpu_ahead.py compiles.
"""

import tensorflow as tf

from t2t_repro.data.slice_shapes import SliceShape
from t2t_repro.kernels.cross_entropy import LOGITS_ON_A_CPU, LOGITS_ON_A_GPU
from t2t_repro.models.transformer import Transformer

_FLOAT32 = tf.float32.size
_DROPOUT = tf.uint16.size  # Random bits of an element.

_OF_SUBLAYER = 2  # Vectors of d_model: the sum of the residual connection, and that normalised.
_OF_HIDDEN = 2  # Vectors of d_ff: before the ReLU, whose gradient asks for the sign, and behind it.
_IN_ENCODER, _IN_DECODER = 2, 3  # Sub-layers.


def compiled_bytes(model: Transformer, shape: SliceShape, on_gpu: bool) -> int:
    """Estimates what a slice takes at its peak, beside float32 weights and gradients, in bytes.

    That is between the passes, when the activations of all layers are there, and the logits. Layers
    that are computed again keep what goes into each, and the rest of one at a time.

    Args:
        model: the Transformer.
        shape: of the slice.
        on_gpu: whether a GPU computes it. A CPU computes bfloat16 in float32, and fewer logits at a
            time.
    """
    number = tf.as_dtype(model.compute_dtype).size if on_gpu else _FLOAT32
    d_model, layers = model.config.d_model, model.num_layers
    of_layer = _layer_bytes(model, shape, number)
    if model.config.recompute:
        kept = layers * sum(shape.slots) * d_model * number + of_layer
    else:
        kept = layers * of_layer
    most = LOGITS_ON_A_GPU if on_gpu else LOGITS_ON_A_CPU
    logits = min(shape.slots[1] * model.vocab_size, most)
    kept += 2 * logits * number  # Themselves, and their softmax.
    # What the first layers read, and the random bits of the dropout before.
    kept += sum(shape.slots) * d_model * (number + (_DROPOUT if model.config.dropout else 0))
    if number < _FLOAT32:
        kept += model.count_params() * number  # All weights once more.
    return kept


def _layer_bytes(model: Transformer, shape: SliceShape, number: int) -> int:
    """What a layer of the encoder and one of the decoder keep together.

    Tokens are packed into slots, but heads: they are of whole sentences, padding and the empty row
    included (see `kernels.packing`).

    Args:
        model: the Transformer.
        shape: of the slice.
        number: bytes of one.
    """
    config = model.config
    d_model, heads = config.d_model, config.num_heads
    keys, values = heads * config.key_depth, heads * config.value_depth
    source, target = shape.lengths
    rows = shape.rows + 1

    def of_slot(sublayers: int) -> int:
        attentions = sublayers - 1
        vectors = sublayers * _OF_SUBLAYER * d_model + attentions * values
        vectors += _OF_HIDDEN * config.d_ff
        bits = sublayers * d_model if config.dropout else 0
        return vectors * number + bits * _DROPOUT

    slots = shape.slots[0] * of_slot(_IN_ENCODER) + shape.slots[1] * of_slot(_IN_DECODER)
    # Queries, keys and values of three attentions; the decoder's queries attend to both sides.
    of_source = (2 * keys + values) + (keys + values)
    of_target = (2 * keys + values) + keys
    # A softmax in float32 of scores in bfloat16 is computed again, from the scores.
    kept = 2 if model.compute_dtype == "bfloat16" else 1
    weights = kept * heads * (source * source + target * target + target * source)
    return slots + rows * number * (source * of_source + target * of_target + weights)
