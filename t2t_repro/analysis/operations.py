"""Floating-point operations of a Transformer, counted from its shape.

Counted are the matrix products, a multiplication and an addition each; what is done element by
element (norms, softmax, dropout, the optimizer) is below a hundredth of that. Padding is not
counted: give real lengths.
"""

from typing import NamedTuple

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.model.kernels.blocked_attention import keys_of_query
from t2t_repro.model.masks import window_of

BACKWARD_AND_FORWARD = 3
"""A product's two gradients are products of the same size as itself."""


class Operations(NamedTuple):
    """Operations of one forward pass.

    Attributes:
        projections: of queries, keys, values and outputs.
        attention: Q K^T and its product with V, which grow with the square of the length;
            with a neighbourhood of size r as r times the length.
        feed_forward: the feed-forward networks.
        softmax: the scores of the vocabulary.
    """

    projections: float
    attention: float
    feed_forward: float
    softmax: float

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self)


def forward_operations(shape: ModelShape, source_length: float, target_length: float) -> Operations:
    """Counts the forward pass of one sentence pair by teacher forcing.

    What a mask hides counts in full, since it is computed too: half of the decoder's
    self-attention, and with a neighbourhood the ends of the windows.

    Args:
        shape: the model's sizes.
        source_length: tokens of the source, EOS included.
        target_length: tokens of the target, EOS included.
    """
    layer, n = shape.config, shape.num_layers
    depths = layer.num_heads * (layer.key_depth + layer.value_depth)
    # Queries and outputs are projected where the query stands, keys and values where the memory
    # does; h·d_k + h·d_v columns either way.
    queries = source_length + 2 * target_length
    memories = 2 * source_length + target_length
    scored = (
        source_length * _keys_of_query(shape, source_length, is_causal=False)
        + target_length * _keys_of_query(shape, target_length, is_causal=True)
        + target_length * source_length
    )
    tokens = source_length + target_length
    return Operations(
        projections=2.0 * n * (queries + memories) * layer.d_model * depths,
        attention=2.0 * n * scored * depths,
        feed_forward=2.0 * n * tokens * 2 * layer.d_model * layer.d_ff,
        softmax=2.0 * target_length * layer.d_model * shape.vocab_size,
    )


def _keys_of_query(shape: ModelShape, length: float, is_causal: bool) -> float:
    """How many keys self-attention scores each query against."""
    if shape.neighbourhood is None:
        return length
    return keys_of_query(window_of(shape.neighbourhood, is_causal), length)


def training_operations(
    shape: ModelShape, source_tokens: float, target_tokens: float, sentence_length: float
) -> float:
    """Counts forward and backward passes over so many tokens.

    Args:
        shape: the model's sizes.
        source_tokens: source tokens trained on, every epoch counted.
        target_tokens: target tokens likewise.
        sentence_length: tokens of a sentence, on either side; it decides attention's share alone
            (0.7 % of base's at 25 tokens).
    """
    pairs = target_tokens / sentence_length
    forward = forward_operations(shape, source_tokens / pairs, sentence_length)
    return BACKWARD_AND_FORWARD * pairs * forward.total
