"""How much memory the forward pass keeps for the backward pass without XLA, by a formula.

With XLA it is less: see `compiled_memory`.
"""

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.model.transformer import Transformer

_FLOAT_BYTES = 4

# Vectors of d_model that a token leaves behind for the backward pass.
_OF_SUBLAYER = 5  # Its output, that after dropout, the sum, the sum normalised, and scaled.
_OF_ATTENTION = 4  # Queries, keys, values, and what the heads give.


def activation_bytes(model: Transformer, shape: BatchShape) -> int:
    """Estimates what the forward pass of a slice keeps for the backward pass without XLA, in bytes.

    Counted per slot and layer: vectors of d_model, see above, and the feed-forward network's hidden
    vector twice (before and after ReLU). And per pair of positions the attention weights three
    times (scores, softmax, dropout). Layers that are computed again keep what goes into each, and
    the rest of one at a time.
    """
    d_model, heads, d_ff = model.config.d_model, model.config.num_heads, model.config.d_ff
    source, target = shape.source_length, shape.target_length
    # Sub-layers and attentions of a layer: two and one, three and two.
    in_encoder = 2 * _OF_SUBLAYER + _OF_ATTENTION
    in_decoder = 3 * _OF_SUBLAYER + 2 * _OF_ATTENTION
    source_slots, target_slots = shape.capacity
    vectors = source_slots * (in_encoder * d_model + 2 * d_ff)
    vectors += target_slots * (in_decoder * d_model + 2 * d_ff)
    weights = 3 * heads * shape.rows * (source * source + target * (target + source))
    if model.config.recompute:
        inputs = model.num_layers * (source_slots + target_slots) * d_model
        return _FLOAT_BYTES * (inputs + vectors + weights)
    return _FLOAT_BYTES * model.num_layers * (vectors + weights)
