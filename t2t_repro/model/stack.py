"""The common part of encoder and decoder: a stack of N layers."""

from typing import Any, ClassVar

from t2t_repro.model.feed_forward import FeedForward, named_activation
from t2t_repro.model.keras_model import SameShape
from t2t_repro.model.kernels.packing import Vectors, map_positions
from t2t_repro.model.layer_norm import named_norm, new_norm
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.sublayer import SublayerConnection


def check_names(config: LayerConfig) -> None:
    """Checks that the activation and the norm of a configuration exist.

    `LayerConfig` itself does not check them: that needs Keras.

    Raises:
        UserError: a name is neither Keras's, nor this package's, nor registered.
    """
    named_activation(config.activation)
    named_norm(config.norm)


class ConfiguredLayer(SameShape):
    """A layer that a `LayerConfig` describes.

    With a neighbourhood r its self-attention is restricted (paper, section 4).
    """

    def __init__(
        self, config: LayerConfig | dict[str, Any], neighbourhood: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.config = LayerConfig.of(config)
        self.neighbourhood = neighbourhood


class StackedLayer(ConfiguredLayer):
    """One layer of a stack: sub-layers, each in a `SublayerConnection`."""

    def _new_feed_forward(self) -> FeedForward:
        """Makes the feed-forward network that the configuration describes."""
        return FeedForward(
            self.config.d_ff,
            dropout=self.config.relu_dropout,
            activation=self.config.activation,
            initialization=self.config.initialization,
            name="feed_forward",
            dtype=self.dtype_policy,
        )

    def _new_connection(self, name: str) -> SublayerConnection:
        """Makes the residual connection, dropout and norm around a sub-layer."""
        return SublayerConnection(self.config, name=name, dtype=self.dtype_policy)


class LayerStack(ConfiguredLayer):
    """N layers of one kind, and a final norm if normalization is "pre".

    Args:
        num_layers: N.
        args, kwargs: those of a `ConfiguredLayer`.
    """

    layer_type: ClassVar[type[StackedLayer]]

    def __init__(self, num_layers: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_layers = num_layers
        dtype = self.dtype_policy
        # Attributes, not a list: TensorFlow's checkpoints do not see into Keras's lists.
        for i in range(num_layers):
            layer = self.layer_type(self.config, self.neighbourhood, name=f"layer_{i}", dtype=dtype)
            setattr(self, layer.name, layer)
        self.final_norm = None
        if self.config.normalization == "pre":
            self.final_norm = new_norm(self.config, name="final_norm", dtype=dtype)

    @property
    def layers(self) -> list[Any]:
        """The layers, lowest first."""
        return [getattr(self, f"layer_{i}") for i in range(self.num_layers)]

    def normalize_output(self, x: Vectors) -> Vectors:
        """Returns the stack's output: x, after the final norm if there is one."""
        return map_positions(self.final_norm, x) if self.final_norm else x
