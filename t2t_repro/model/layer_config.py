"""The sizes that all layers of both stacks share, under the paper's names."""

import dataclasses
from typing import Annotated, Any, ClassVar

import gin

from t2t_repro.config.values import Range, Rate, validated
from t2t_repro.errors import UserError
from t2t_repro.model.initialization import Initialization
from t2t_repro.model.layer_norm import LAYER_NORM_EPSILON
from t2t_repro.model.named import check_epsilon, named_activation
from t2t_repro.model.sublayer import Normalization

Size = Annotated[int, Range(least=1, most=1_000_000)]
Epsilon = Annotated[float, Range(above=0, below=1)]


@gin.configurable
@validated
@dataclasses.dataclass(frozen=True)
class LayerConfig:
    """Sizes and rates of one encoder or decoder layer; the defaults are the base model's.

    Attributes:
        d_model: width of every sub-layer's input and output.
        d_ff: inner width of the feed-forward network.
        num_heads: h.
        d_k: depth of a head's queries and keys; d_model / num_heads unless given (Table 3, B).
        d_v: depth of a head's values; d_model / num_heads unless given.
        dropout: on every sub-layer's output, and on embedding + position.
        attention_dropout: on the attention weights; 0 in the paper.
        relu_dropout: inside the feed-forward network; 0 in the paper.
        activation: of the feed-forward network, by the name that Keras has for it; see
            `layers.named`.
        norm: a layer that normalises vectors; "LayerNorm" is the paper's; see `layers.named`.
        normalization: where it stands, "post" (the paper) or "pre" (T2T's later default).
        norm_epsilon: ε of the norm.
        attention_biases: whether the projections of attention have biases; none in the paper.
        initialization: what the matrices start as, "glorot" (T2T) or "fairseq"; see
            `layers.initialization`.
        recompute: whether training keeps only each layer's input, and computes the layer again in
            the backward pass: less memory, a longer step, the same result.

    Raises:
        UserError: for sizes that do not fit each other, or a normalization, norm or activation that
            does not exist, or an ε for a norm that takes none.
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
    recompute: bool = False

    TRAINING_ALONE: ClassVar = (
        "dropout",
        "attention_dropout",
        "relu_dropout",
        "initialization",
        "recompute",
    )
    """Fields that change how a model is trained, and neither its weights nor what it computes."""

    def __post_init__(self) -> None:
        named_activation(self.activation)
        check_epsilon(self.norm, self.norm_epsilon)
        if self.d_model % 2:
            raise UserError(
                f"LayerConfig.d_model is {self.d_model}, expected an even number: "
                "sines and cosines come in pairs."
            )
        if self.d_model % self.num_heads and not (self.d_k and self.d_v):
            raise UserError(
                f"LayerConfig.d_model={self.d_model} is not divisible by "
                f"num_heads={self.num_heads}: choose another number of heads, "
                "or give d_k and d_v."
            )

    @property
    def key_depth(self) -> int:
        """d_k, or d_model / num_heads."""
        return self.d_k or self.d_model // self.num_heads

    @property
    def value_depth(self) -> int:
        """d_v, or d_model / num_heads."""
        return self.d_v or self.d_model // self.num_heads

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as plain values, for Keras's get_config."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, config: "LayerConfig | dict[str, Any]") -> "LayerConfig":
        """Returns a LayerConfig from itself or from `to_dict`'s result."""
        return config if isinstance(config, LayerConfig) else cls(**config)
