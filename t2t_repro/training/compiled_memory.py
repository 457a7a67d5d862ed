"""How much memory the forward and backward pass take where XLA compiles them, by a formula.

XLA keeps what the backward pass reads and cannot be recomputed cheaply: a sum but not its terms,
and no statistics of a norm. Seen in the programs that benchmarks/memory.py compiles.
"""

import tensorflow as tf

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.model.kernels.cross_entropy import LOGITS_ON_A_CPU, LOGITS_ON_A_GPU
from t2t_repro.model.transformer import Transformer

_FLOAT32 = tf.float32.size
_DROPOUT_ON_A_CPU = tf.uint16.size  # Random bits of an element.
_DROPOUT_ON_A_GPU = tf.bool.size  # Whether it is kept; see `kernels.dropout_bits`.

_OF_SUBLAYER = 2  # Vectors of d_model: the sum of the residual connection, and that normalised.
_OF_HIDDEN = 2  # Vectors of d_ff: before the activation, and behind it.
_OF_RELU_ON_A_GPU = 1  # See `kernels.relu`.
_IN_ENCODER, _IN_DECODER = 2, 3  # Sub-layers.


def compiled_bytes(model: Transformer, shape: BatchShape, on_gpu: bool) -> int:
    """Estimates what a slice takes at its peak, beside float32 weights and gradients, in bytes.

    The peak is between the passes, when the activations of all layers and the logits are there.
    With `recompute` only the layers' inputs are. Then the peak is at the same time, or later, when
    the logits are gone and one layer is computed again: one of the encoder's, or the decoder's
    lowest, when gradients by the encoder's output have gathered.

    Gradients count as if they were there from the start. XLA also lays some activations where they
    will be, the more the larger the weights are: so much the estimate is too high.

    Args:
        model: the Transformer.
        shape: of the slice.
        on_gpu: whether a GPU computes it. A CPU computes bfloat16 in float32, and fewer logits at a
            time.
    """
    number = tf.as_dtype(model.compute_dtype).size if on_gpu else _FLOAT32
    most = LOGITS_ON_A_GPU if on_gpu else LOGITS_ON_A_CPU
    # Themselves, and their softmax.
    logits = 2 * min(shape.capacity[1] * model.vocab_size, most) * number
    in_encoder, in_decoder = _layer_bytes(model, shape, number, on_gpu)
    vectors = sum(shape.capacity) * model.config.d_model
    if model.config.recompute:
        in_decoder += _gathered_bytes(model, shape, number, on_gpu)
        between = logits if on_gpu else max(logits, _ahead_bytes(model, shape))
        kept = model.num_layers * vectors * number + max(between, in_encoder, in_decoder)
    else:
        kept = model.num_layers * (in_encoder + in_decoder) + logits
    # What the first layers read, and the random bits of the dropout before.
    kept += vectors * (number + _dropout_bytes(model, on_gpu))
    return kept + _weights_bytes(model, number, on_gpu)


def _dropout_bytes(model: Transformer, on_gpu: bool) -> int:
    """What dropout keeps of an element."""
    if not model.config.dropout:
        return 0
    return _DROPOUT_ON_A_GPU if on_gpu else _DROPOUT_ON_A_CPU


def _gathered_bytes(model: Transformer, shape: BatchShape, number: int, on_gpu: bool) -> int:
    """What is more when the decoder's lowest layer is computed again than at its highest.

    What went into the layers that are done is gone. The gradients by the encoder's output that they
    have given are there: one of the keys and one of the values, which are one product on a GPU.
    """
    given, gone = shape.capacity[0] * (1 if on_gpu else 2), shape.capacity[1]
    return max(0, (model.num_layers - 1) * (given - gone) * model.config.d_model * number)


def _ahead_bytes(model: Transformer, shape: BatchShape) -> int:
    """What a CPU makes ahead in the forward pass where layers are computed again.

    Keys and values of the encoder's output for all layers of the decoder; and, as zeros, the sum of
    the embedding's gradient over blocks of logits, twice.
    """
    config = model.config
    width = config.num_heads * (config.key_depth + config.value_depth)
    keys_values = model.num_layers * (shape.rows + 1) * shape.source_length * width
    return (keys_values + 2 * model.vocab_size * config.d_model) * _FLOAT32


def _weights_bytes(model: Transformer, number: int, on_gpu: bool) -> int:
    """What there is of weights beside themselves: as products read them, for both passes.

    In bfloat16 that is all of them once more. XLA lays these copies where gradients will be (so
    frozen weights need more than is said here). Where layers are computed again, there is place for
    a part of them alone, and all are counted.

    In float32 a GPU's products read the weights themselves, but for the projections of queries,
    keys and values, which lie side by side: of three attentions.
    """
    config = model.config
    if number < _FLOAT32:
        return model.count_params() * number if config.recompute else 0
    keys, values = config.num_heads * config.key_depth, config.num_heads * config.value_depth
    side_by_side = 2 * (2 * keys + values) + (keys + values)
    return model.num_layers * config.d_model * side_by_side * number if on_gpu else 0


def _layer_bytes(
    model: Transformer, shape: BatchShape, number: int, on_gpu: bool
) -> tuple[int, int]:
    """What a layer of the encoder keeps, and one of the decoder.

    Tokens are packed into slots, but heads: they are of whole sentences, padding and the empty row
    included (see `kernels.packing`).

    Args:
        model: the Transformer.
        shape: of the slice.
        number: bytes of one.
        on_gpu: whether a GPU computes it.
    """
    config = model.config
    d_model, heads = config.d_model, config.num_heads
    keys, values = heads * config.key_depth, heads * config.value_depth
    source, target = shape.lengths
    # A softmax in float32 of scores in bfloat16 is computed again, from the scores.
    weights = heads * (2 if model.compute_dtype == "bfloat16" else 1)

    keeps_output_alone = on_gpu and config.activation == "relu"
    hidden = _OF_RELU_ON_A_GPU if keeps_output_alone else _OF_HIDDEN
    of_dropout = _dropout_bytes(model, on_gpu)

    def of_slot(sublayers: int) -> int:
        attentions = sublayers - 1
        vectors = sublayers * _OF_SUBLAYER * d_model + attentions * values
        vectors += hidden * config.d_ff
        return vectors * number + sublayers * d_model * of_dropout

    # Queries, keys, values and weights of every attention; the decoder's queries attend to both
    # sides.
    own = 2 * keys + values
    in_encoder = source * (own + weights * source)
    in_decoder = target * (own + keys + weights * (target + source)) + source * (keys + values)
    rows = (shape.rows + 1) * number
    return (
        shape.capacity[0] * of_slot(_IN_ENCODER) + rows * in_encoder,
        shape.capacity[1] * of_slot(_IN_DECODER) + rows * in_decoder,
    )
