"""How many floating-point operations the arithmetic of the model asks for: matrix products alone.

A product [n, k] × [k, m] is 2·n·k·m operations. Softmax, layer norms, dropout and the optimizer are
left out, as are paddings: what a peer computes on them is its own loss.
"""

from work import PAD_ID, Batch, ModelSize


def training_operations(size: ModelSize, batch: Batch) -> float:
    """Operations of a step on the real tokens of a batch: three times those of the forward pass.

    (The backward pass multiplies twice for each product, once for either factor's gradient.)
    """
    sources = (batch.source != PAD_ID).sum(axis=1).tolist()
    targets = (batch.target != PAD_ID).sum(axis=1).tolist()
    pairs = zip(sources, targets, strict=True)
    return 3.0 * sum(encoder(size, s) + decoder(size, s, t) for s, t in pairs)


def decoding_operations(size: ModelSize, source_length: int, beam: int, tokens: int) -> float:
    """Operations of one sentence's beam search, everything that can be kept computed once.

    The encoder and the projections of its output to keys and values once a sentence; at every step
    the decoder and the softmax projection for each hypothesis.
    """
    d = size.d_model
    once = encoder(size, source_length) + size.num_layers * 4.0 * d * d * source_length
    step = 2.0 * size.vocab_size * d + size.num_layers * (12.0 * d * d + 4.0 * d * size.d_ff)
    attended = tokens * (tokens + 1) / 2 + tokens * source_length
    attention = size.num_layers * 4.0 * d * attended
    return once + beam * (tokens * step + attention)


def encoder(size: ModelSize, length: int) -> float:
    """Operations of the encoder on one sentence of so many tokens."""
    d = size.d_model
    projections = 8.0 * d * d * length  # q, k, v and output
    attention = 4.0 * d * length * length  # Q K^T and the sum of V
    return size.num_layers * (projections + attention + _feed_forward(size, length))


def decoder(size: ModelSize, source_length: int, target_length: int) -> float:
    """Operations of the decoder and the softmax projection on one sentence pair."""
    d = size.d_model
    # Positions to come are masked: half of the self-attention is all that is needed.
    self_attention = 8.0 * d * d * target_length + 2.0 * d * target_length * (target_length + 1)
    queries = 4.0 * d * d * target_length  # q and output
    keys = 4.0 * d * d * source_length  # k and v
    memory_attention = queries + keys + 4.0 * d * target_length * source_length
    layer = self_attention + memory_attention + _feed_forward(size, target_length)
    return size.num_layers * layer + 2.0 * d * size.vocab_size * target_length


def _feed_forward(size: ModelSize, length: int) -> float:
    return 4.0 * size.d_model * size.d_ff * length
