"""How many parameters a Transformer has (the last column of the paper's Table 3)."""

from t2t_repro.analysis.model_shape import ModelShape


def parameter_count(shape: ModelShape) -> int:
    """Counts every weight of the model, without making it.

    An attention has W^Q, W^K [d_model, h·d_k], W^V and W^O [h·d_v, d_model], and perhaps a bias
    each; a feed-forward network W_1, b_1, W_2, b_2; a layer norm a scale and a bias. An encoder
    layer has one attention and two norms, a decoder layer two and three. Source, target and softmax
    share one embedding, unless they have their own; the logits may have a bias. RMSNormalization
    has no bias; a norm of one's own is counted as a layer norm.

    The paper's counts (65, 36, 50, 80, 28, 168, 53, 90, 58 and 60 million) are these with 41,004
    to 41,208 rows in the embedding, and the big model's 213 million with 35,368 to 36,344. With
    40,960 rows all agree but d_ff = 1024, which has 52.48 million.

    Args:
        shape: the model's sizes.
    """
    layer, d_model = shape.config, shape.config.d_model
    attention = 2 * d_model * layer.num_heads * (layer.key_depth + layer.value_depth)
    if layer.attention_biases:
        attention += layer.num_heads * (2 * layer.key_depth + layer.value_depth) + d_model
    feed_forward = 2 * d_model * layer.d_ff + layer.d_ff + d_model
    norm = d_model if layer.norm == "RMSNormalization" else 2 * d_model
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    final_norms = 2 * norm if layer.normalization == "pre" else 0
    rows = shape.vocab_size + shape.own_rows + 2 * shape.learned_positions
    logits_bias = shape.vocab_size if shape.logits_bias else 0
    layers = shape.num_layers * (encoder_layer + decoder_layer)
    return rows * d_model + layers + final_norms + logits_bias
