"""What the encoder and the decoder have in common: N layers, one behind the other."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.layer_norm import LayerNorm
from t2t_repro.layers.sublayer import LAYER_NORM_EPSILON


class LayerStack(keras.layers.Layer):
    """N layers of one kind, and a final layer norm where normalization is "pre".

    Args:
        num_layers: N.
        config: sizes and rates of each.
        neighbourhood: r, the size of the neighbourhood self-attention is restricted to
            (paper, section 4), or None for no restriction.
    """

    layer_type: ClassVar[type[keras.layers.Layer]]

    def __init__(
        self,
        num_layers: int,
        config: LayerConfig | dict[str, Any],
        neighbourhood: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_layers = num_layers
        self.config = LayerConfig.of(config)
        self.neighbourhood = neighbourhood
        # As attributes, not in a list: TensorFlow's checkpoints do not see into Keras's lists.
        for i in range(num_layers):
            layer_i = self.layer_type(
                self.config, neighbourhood, name=f"layer_{i}", dtype=self.dtype_policy
            )
            setattr(self, layer_i.name, layer_i)
        self.final_norm = (
            LayerNorm(epsilon=LAYER_NORM_EPSILON, name="final_norm", dtype=self.dtype_policy)
            if self.config.normalization == "pre"
            else None
        )

    @property
    def layers(self) -> list[Any]:
        """The layers, the lowest first."""
        return [getattr(self, f"layer_{i}") for i in range(self.num_layers)]

    def build(self, x_shape: tuple) -> None:
        """Builds all layers for inputs [batch, length, d_model]."""
        for layer in self.layers:
            layer.build(x_shape)
        if self.final_norm:
            self.final_norm.build(x_shape)
        self.built = True

    def normalize_output(self, x: tf.Tensor) -> tf.Tensor:
        """What the stack gives out: x, normalised where normalization is "pre"."""
        return self.final_norm(x) if self.final_norm else x

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "config": self.config.to_dict(),
            "neighbourhood": self.neighbourhood,
        }
