"""The configuration of a layer, under the paper's names; activations and norms by name.

A configuration is text, so that it can be saved. Your own activation or norm gets a name when it is
registered with Keras, in a module that the gin file imports:

    @keras.saving.register_keras_serializable(package="my_parts")
    def squared_relu(x): ...

is "my_parts>squared_relu".
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import gin
import keras
import tensorflow as tf

from t2t_repro.config.values import Range, Rate, validated
from t2t_repro.errors import UserError
from t2t_repro.model import kernels
from t2t_repro.model.dense import Initialization
from t2t_repro.model.kernels.gpu import relu as fast_relu
from t2t_repro.model.layer_norm import LAYER_NORM_EPSILON, LayerNorm

Size = Annotated[int, Range(least=1, most=1_000_000)]
Epsilon = Annotated[float, Range(above=0, below=1)]

Normalization = Literal["post", "pre"]
"""Where the norm stands: after the residual sum (the paper), or before the sub-layer."""

_relu = kernels.fast(fast_relu, keras.activations.relu)

_NORMS = {"LayerNorm": LayerNorm, "RMSNormalization": keras.layers.RMSNormalization}

_YOUR_OWN = (
    "'package>name' of what a module registers with keras.saving.register_keras_serializable: "
    "import the module in the gin file."
)


@gin.configurable
@validated
@dataclasses.dataclass(frozen=True)
class LayerConfig:
    """Sizes and rates of an encoder or decoder layer; the defaults are the base model's.

    Attributes:
        d_model: width of every sub-layer's input and output.
        d_ff: inner width of the feed-forward network.
        num_heads: h.
        d_k: depth of a head's queries and keys; d_model / num_heads by default (Table 3, B).
        d_v: depth of a head's values; d_model / num_heads by default.
        dropout: rate on every sub-layer's output, and on embedding + position.
        attention_dropout: rate on the attention weights; 0 in the paper.
        relu_dropout: rate within the feed-forward network; 0 in the paper.
        normalization: "post" (the paper) or "pre" (T2T's later default).
        activation: of the feed-forward network: Keras's name of it, or your own.
        norm: "LayerNorm" (the paper), "RMSNormalization" (Keras's), or your own.
        norm_epsilon: ε of the norm; your own norm sets its own.
        attention_biases: whether the projections of attention have biases; none in the paper.
        initialization: of the matrices, "glorot" (T2T) or "fairseq"; see `model.dense`.

    Raises:
        UserError: sizes do not fit each other, or a normalization, norm or activation does not
            exist.
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

    TRAINING_ALONE: ClassVar = ("dropout", "attention_dropout", "relu_dropout", "initialization")
    """Fields that matter in training only: not for the weights' shapes, nor for decoding."""

    def __post_init__(self) -> None:
        named_activation(self.activation)
        named_norm(self.norm)
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
        if isinstance(config, LayerConfig):
            return config
        # Earlier versions had `recompute`, which changed no result.
        return cls(**{name: value for name, value in config.items() if name != "recompute"})


def named_activation(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns an activation, [..., d_ff] → the same shape.

    Args:
        name: one that Keras knows, such as "relu" or "gelu", or a registered function's.

    Raises:
        UserError: there is none of that name.
    """
    try:
        activation = _registered(name) or keras.activations.get(name)
    except ValueError as error:
        raise UserError(
            f"LayerConfig.activation is {name!r}, expected a name that Keras knows, such as "
            f"'relu' or 'gelu', or {_YOUR_OWN}"
        ) from error
    return _relu if name == "relu" else activation


def named_norm(name: str) -> Callable[..., keras.layers.Layer]:
    """Returns the class of a layer that normalizes vectors, [..., d_model] → the same shape.

    Args:
        name: "LayerNorm", "RMSNormalization" (Keras's), or a registered class's, whose constructor
            takes a Keras layer's `name` and `dtype`.

    Raises:
        UserError: there is none of that name.
    """
    norm: Any = _NORMS.get(name) or _registered(name)
    if not (isinstance(norm, type) and issubclass(norm, keras.layers.Layer)):
        raise UserError(
            f"LayerConfig.norm is {name!r}, expected {' or '.join(map(repr, _NORMS))}, or "
            f"{_YOUR_OWN}"
        )
    return norm


def new_norm(kind: str, epsilon: float = LAYER_NORM_EPSILON, **kwargs: Any) -> keras.layers.Layer:
    """Makes a norm.

    Args:
        kind: its name, see `named_norm`.
        epsilon: ε; your own norm sets its own.
        kwargs: a Keras layer's `name` and `dtype`.

    Raises:
        UserError: there is no norm of that name.
    """
    if kind in _NORMS:
        kwargs["epsilon"] = epsilon
    norm = named_norm(kind)(**kwargs)
    # Keras's RMSNormalization does not declare it, but treats all vectors alike.
    norm.supports_masking = True
    return norm


def _registered(name: str) -> Any:
    """Returns what your module registered under a name; this package's layers are not parts."""
    if not isinstance(name, str) or name.startswith("t2t_repro>"):
        return None
    return keras.saving.get_registered_object(name)
