"""What a training is made of, in the paper's words, whichever toolkit does it."""

from typing import NamedTuple


class Recipe(NamedTuple):
    """A post-norm Transformer with one embedding for source, target and softmax, and its training.

    Attributes:
        num_layers: of the encoder, and of the decoder.
        d_model: width.
        d_ff: inner width of the feed-forward network.
        num_heads: h.
        dropout: on every sub-layer's output, and on embedding + position.
        label_smoothing: what the truth gives away to all other entries.
        learning_rate: at the end of the warm-up; then it falls with the root of the updates.
        warmup_steps: updates in which the rate rises from 0.
        adam_epsilon: of Adam, whose betas are 0.9 and 0.98.
        steps: updates, at most.
        averaged: the last so many checkpoints become one model.
        beam_size: of the search.
        length_penalty: its exponent; what of a length is raised to it, is each toolkit's own.
    """

    num_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    dropout: float
    label_smoothing: float
    learning_rate: float
    warmup_steps: int
    adam_epsilon: float
    steps: int
    averaged: int
    beam_size: int
    length_penalty: float
