"""Settings of the model, the loss and ensembles, as gin files bind them.

Importing this module does not import TensorFlow: a mistake in a gin file is reported before that.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from t2t_repro.config.values import Count, Range, Rate, configurable
from t2t_repro.errors import UserError
from t2t_repro.vocabulary import PAD_ID

LAYER_NORM_EPSILON = 1e-6

Size = Annotated[int, Range(least=1, most=1_000_000)]
Epsilon = Annotated[float, Range(above=0, below=1)]
Depth = Annotated[int, Range(least=1, most=1000)]
"""A number of layers."""
Rows = Annotated[int, Range(least=1, most=10_000_000)]
Index = Annotated[int, Range(least=0, most=10_000_000)]

Normalization = Literal["post", "pre"]
"""The place of the norm: after the residual sum (the paper), or before the sub-layer."""

Initialization = Literal["glorot", "fairseq"]
"""The initialization of the matrices of attention and of the feed-forward network.

The paper does not say. T2T draws all as Glorot and Bengio (2010) do ("uniform_unit_scaling").
fairseq starts with smaller ones, from which a post-norm model learns faster (EXPERIMENTS.md,
Multi30k). W^O, the biases (0) and the embedding are the same in both; see `model.dense`.
"""

DecoderSelfAttention = Literal["attention", "ssru"]
"""The part that reads earlier target positions in the decoder: self-attention, or the `SSRU`.

The encoder always has self-attention.
"""

Positions = Literal["interleaved", "halves", "concatenated", "learned"]
"""The encoding of positions, see `PositionalEncoding`.

"interleaved" is the paper's; "halves" are its sines, then its cosines; "concatenated" is T2T's;
"learned" is Table 3, row E: source and target learn a table each, as in T2T.
"""

TiedEmbeddings = Literal["all", "target_softmax", "source_target", "none"]
"""The embeddings that share one matrix: all (the paper), two, or none."""

OWN_SOURCE_EMBEDDING = ("target_softmax", "none")
"""Values of `tied_embeddings` where the source has its own embedding."""

OWN_SOFTMAX = ("source_target", "none")
"""Values of `tied_embeddings` where the softmax has its own matrix."""


@configurable()
@dataclass(frozen=True)
class LayerConfig:
    """Sizes and rates of an encoder or decoder layer; the defaults are the base model's.

    Attributes:
        d_model: width of every sub-layer's input and output.
        d_ff: inner width of the feed-forward network.
        num_heads: h, the number of attention heads.
        d_k: depth of a head's queries and keys; d_model / num_heads by default (Table 3, B).
        d_v: depth of a head's values; d_model / num_heads by default.
        dropout: rate on every sub-layer's output, and on embedding + position.
        attention_dropout: rate on the attention weights; 0 in the paper.
        relu_dropout: rate within the feed-forward network; 0 in the paper.
        normalization: "post" (the paper) or "pre" (T2T's later default).
        activation: the activation of the feed-forward network: Keras's name of it, or your own; the
            names of activations and norms are checked by `stack.check_names`.
        norm: "LayerNorm" (the paper), "RMSNormalization" (Keras's), or your own.
        norm_epsilon: ε of the norm; your own norm sets its own.
        attention_biases: whether the projections of attention have biases; none in the paper.
        initialization: initial values of the matrices, "glorot" (T2T) or "fairseq".
        decoder_self_attention: "attention" (the paper), or "ssru" in its place; see `model.ssru`.

    Raises:
        UserError: d_model is odd, or not divisible by num_heads where d_k or d_v needs it.
    """

    d_model: Size = 512
    d_ff: Size = 2048
    num_heads: Size = 8
    d_k: Size | None = None
    d_v: Size | None = None
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    relu_dropout: Rate = 0.0
    normalization: Normalization = "post"
    activation: str = "relu"
    norm: str = "LayerNorm"
    norm_epsilon: Epsilon = LAYER_NORM_EPSILON
    attention_biases: bool = False
    initialization: Initialization = "glorot"
    decoder_self_attention: DecoderSelfAttention = "attention"

    TRAINING_ALONE: ClassVar = ("dropout", "attention_dropout", "relu_dropout", "initialization")
    """Fields that matter in training only: not for the weights' shapes, nor for decoding."""

    def __post_init__(self) -> None:
        """Checks what the types of single fields cannot say; see Raises."""
        if self.d_model % 2:
            problem = f"LayerConfig.d_model is {self.d_model}"
            raise UserError(f"{problem}, expected an even number: sines and cosines come in pairs.")
        if self.d_model % self.num_heads and not (self.d_k and self.d_v):
            problem = f"d_model={self.d_model} is not divisible by num_heads={self.num_heads}"
            raise UserError(f"LayerConfig.{problem}: choose a divisor, or give d_k and d_v.")

    @property
    def key_depth(self) -> int:
        """d_k, or d_model / num_heads."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_depth(self) -> int:
        """d_v, or d_model / num_heads."""
        return self.d_v or self.d_model // self.num_heads

    @property
    def is_recurrent(self) -> bool:
        """Whether the decoder has the SSRU instead of self-attention."""
        return self.decoder_self_attention == "ssru"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values, for Keras's get_config."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, config: "LayerConfig | dict[str, Any]") -> "LayerConfig":
        """Returns a LayerConfig as it is, or makes one from `to_dict`'s result.

        Fields that are left out have their defaults.
        """
        if isinstance(config, LayerConfig):
            return config
        # Earlier versions had `recompute`, which changed no result.
        return cls(**{name: value for name, value in config.items() if name != "recompute"})


@configurable("Transformer")
@dataclass(frozen=True)
class TransformerSettings:
    """The arguments of a `Transformer`: `Transformer(**vars(settings))`.

    Attributes:
        vocab_size: rows of the embedding; by default one for every subword of the data.
        num_layers: N, of the encoder, and of the decoder if it has no number of its own.
        config: sizes and rates of every layer; the base model's by default.
        positional_encoding: see `Positions`.
        max_length: the number of learned positions, for "learned".
        neighbourhood: r of the restricted self-attention (paper, section 4), or None; of the
            encoder alone if the decoder has the SSRU.
        tied_embeddings: which embeddings are one matrix; see `TiedEmbeddings`.
        source_vocab_size: rows of the source's own embedding, if its vocabulary is different.
        logits_bias: whether a bias is added to the logits, [vocab]; none in the paper.
        num_decoder_layers: number of layers of the decoder; `num_layers` by default, as in the
            paper.
        first_position: the number of the first position, for sinusoids; imported models count from
            1 or 2.
        start_id: the id with which the decoder begins; PAD, a zero vector, by default.
        source_eos: whether the encoder sees the source's EOS.

    Raises:
        UserError: start_id is beyond the vocabulary; source_vocab_size is given, though the source
            shares an embedding; or positions are learned, but max_length is not given.
    """

    vocab_size: Rows | None = None
    num_layers: Depth = 6
    config: LayerConfig = field(default_factory=LayerConfig)
    positional_encoding: Positions = "interleaved"
    max_length: Rows | None = None
    neighbourhood: Count | None = None
    tied_embeddings: TiedEmbeddings = "all"
    source_vocab_size: Rows | None = None
    logits_bias: bool = False
    num_decoder_layers: Depth | None = None
    first_position: Index = 0
    start_id: Index = PAD_ID
    source_eos: bool = True

    def __post_init__(self) -> None:
        """Checks the fields that depend on others; see Raises."""
        if self.vocab_size and self.start_id >= self.vocab_size:
            expected = f"expected an id below vocab_size={self.vocab_size}"
            problem = f"Transformer.start_id is {self.start_id}, {expected}"
            raise UserError(f"{problem}: give the id of the subword with which the decoder begins.")
        if self.source_vocab_size and self.tied_embeddings not in OWN_SOURCE_EMBEDDING:
            shared = f"tied_embeddings={self.tied_embeddings!r} has the source share an embedding"
            problem = f"Transformer.source_vocab_size is {self.source_vocab_size}, but {shared}"
            raise UserError(f"{problem}: bind 'target_softmax' or 'none' to tied_embeddings.")
        if self.positional_encoding == "learned" and not self.max_length:
            problem = "Transformer.positional_encoding is 'learned', but max_length is not given"
            raise UserError(f"{problem}: bind the number of positions to Transformer.max_length.")
