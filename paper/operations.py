"""Floating-point operations and parameters of a Transformer, counted from its sizes.

Operations are those of the matrix products, a multiplication and an addition each. Norms, softmax,
dropout and the optimizer are less than a hundredth of that. Padding is not counted: give real
lengths.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_repro.model.kernels.blocked_attention import keys_of_query
from t2t_repro.model.masks import window_of
from t2t_repro.model.settings import LayerConfig
from t2t_repro.runs.model_json import depths_of
from t2t_repro.runs.model_json import parameter_count as matrix_parameters

BACKWARD_AND_FORWARD = 3
"""The two gradients of a product are products of the same size."""


class Operations(NamedTuple):
    """Operations of one forward pass.

    Attributes:
        projections: of queries, keys, values and outputs; W and W_f of the SSRU.
        attention: Q K^T and its product with V.
        feed_forward: the feed-forward networks.
        softmax: the logits.
    """

    projections: float
    attention: float
    feed_forward: float
    softmax: float

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self)


def parameter_count(sizes: Mapping[str, Any]) -> int:
    """Counts every weight of a Transformer, without building it (last column of Table 3).

    To the matrices are added what a feed-forward network has of biases (b_1, b_2), a layer norm of
    scales and biases, and, where they are bound, the biases of attention and of the logits. An
    encoder layer has one attention and two norms, a decoder layer two and three. With 40,960 rows
    the counts are the paper's, except d_ff = 1024 (52.48 million).

    Args:
        sizes: what `Transformer.get_config` returns, or a model.json holds.
    """
    sizes = {"tied_embeddings": "all", **sizes}
    layer = LayerConfig.of(sizes["config"])
    attention_biases = 0
    if layer.attention_biases:
        attention_biases = layer.num_heads * (2 * layer.key_depth + layer.value_depth)
        attention_biases += layer.d_model
    norm = layer.d_model if layer.norm == "RMSNormalization" else 2 * layer.d_model
    encoder_layers, decoder_layers = depths_of(sizes)
    vectors = (encoder_layers + 2 * decoder_layers) * attention_biases
    if layer.is_recurrent:
        vectors += decoder_layers * (layer.d_model - attention_biases)
    vectors += (encoder_layers + decoder_layers) * (layer.d_ff + layer.d_model)
    vectors += (2 * encoder_layers + 3 * decoder_layers) * norm
    final_norms = 2 * norm if layer.normalization == "pre" else 0
    logits_bias = sizes["vocab_size"] if sizes.get("logits_bias") else 0
    return matrix_parameters(sizes) + vectors + final_norms + logits_bias


def forward_operations(
    sizes: Mapping[str, Any], source_length: float, target_length: float
) -> Operations:
    """Counts the forward pass of one sentence pair with teacher forcing.

    Masked positions count in full, since they are computed too.

    Args:
        sizes: what `Transformer.get_config` returns, or a model.json holds.
        source_length: tokens of the source, EOS included.
        target_length: tokens of the target, EOS included.
    """
    layer = LayerConfig.of(sizes["config"])
    encoder_layers, decoder_layers = depths_of(sizes)
    depths = layer.num_heads * (layer.key_depth + layer.value_depth)
    # Queries and outputs are projected where the query stands, keys and values where the memory
    # does; h·d_k + h·d_v columns either way.
    encoded, decoded = encoder_layers * source_length, decoder_layers * target_length
    attended = 0.0 if layer.is_recurrent else decoded
    queries = encoded + decoded + attended
    memories = encoded + decoder_layers * source_length + attended
    recurrent = 2 * layer.d_model * (decoded - attended)
    window = sizes["neighbourhood"]
    scored = (
        encoded * _keys_of_query(window, source_length, is_causal=False)
        + attended * _keys_of_query(window, target_length, is_causal=True)
        + decoded * source_length
    )
    return Operations(
        projections=2.0 * ((queries + memories) * depths + recurrent) * layer.d_model,
        attention=2.0 * scored * depths,
        feed_forward=2.0 * (encoded + decoded) * 2 * layer.d_model * layer.d_ff,
        softmax=2.0 * target_length * layer.d_model * sizes["vocab_size"],
    )


def training_operations(
    sizes: Mapping[str, Any], source_tokens: float, target_tokens: float, sentence_length: float
) -> float:
    """Counts forward and backward passes over so many tokens.

    Args:
        sizes: as above.
        source_tokens: source tokens trained on, all epochs together.
        target_tokens: target tokens likewise.
        sentence_length: target tokens of a sentence. It only decides attention's share, which is
            0.7 % of base's at 25 tokens.
    """
    pairs = target_tokens / sentence_length
    forward = forward_operations(sizes, source_tokens / pairs, sentence_length)
    return BACKWARD_AND_FORWARD * pairs * forward.total


def _keys_of_query(window: int | None, length: float, is_causal: bool) -> float:
    """Returns how many keys self-attention scores each query against."""
    return length if window is None else keys_of_query(window_of(window, is_causal), length)
