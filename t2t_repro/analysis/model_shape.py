"""The sizes that a Transformer's parameters and operations follow from."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_repro.layers.layer_config import LayerConfig


class ModelShape(NamedTuple):
    """A Transformer's sizes, without its weights.

    Attributes:
        vocab_size: rows of the one embedding.
        num_layers: N, of the encoder and of the decoder.
        config: sizes of every layer.
        learned_positions: rows of each of the two tables of learned positions; 0 with sinusoids.
        neighbourhood: r of the restricted self-attention, or None.
    """

    vocab_size: int
    num_layers: int
    config: LayerConfig
    learned_positions: int = 0
    neighbourhood: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ModelShape":
        """Reads the sizes from what `Transformer.get_config` returns, or a model.json holds."""
        learned = config["positional_encoding"] == "learned"
        return cls(
            config["vocab_size"],
            config["num_layers"],
            LayerConfig.of(config["config"]),
            config["max_length"] if learned else 0,
            config["neighbourhood"],
        )
