"""Residual connection, dropout and norm around each sub-layer (paper, sections 3.1 and 5.4)."""

from collections.abc import Callable
from typing import Any

import keras

from t2t_repro.model.dropout import Dropout
from t2t_repro.model.keras_model import SameShape
from t2t_repro.model.kernels.packing import Vectors, map_positions
from t2t_repro.model.layer_norm import new_norm
from t2t_repro.model.settings import LayerConfig


@keras.saving.register_keras_serializable(package="t2t_repro")
class SublayerConnection(SameShape):
    """LayerNorm(x + Dropout(Sublayer(x))), or with the norm before the sub-layer.

    The normalization "post" is the paper's. "pre" is T2T's later default,
    x + Dropout(Sublayer(LayerNorm(x))), with one more norm at the end of each stack.
    """

    def __init__(self, config: LayerConfig | dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config = LayerConfig.of(config)
        dtype = self.dtype_policy
        self.norm = new_norm(config, name="norm", dtype=dtype)
        self.output_dropout = Dropout(config.dropout, name="output_dropout", dtype=dtype)

    def call(
        self, x: Vectors, sublayer: Callable[..., Vectors], training: bool | None = None
    ) -> Vectors:
        """Applies sublayer(y, training=...) with residual, dropout and norm; x keeps its shape."""

        def apply_sublayer(y: Vectors) -> Vectors:
            return self.output_dropout(sublayer(y, training=training), training=training)

        if self.config.normalization == "pre":
            return x + apply_sublayer(map_positions(self.norm, x))
        return map_positions(self.norm, x + apply_sublayer(x))
