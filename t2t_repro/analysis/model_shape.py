"""The sizes that a Transformer's parameters and operations follow from."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import OWN_SOFTMAX, OWN_SOURCE_EMBEDDING


class ModelShape(NamedTuple):
    """A Transformer's sizes, without its weights.

    Attributes:
        vocab_size: rows of the target's embedding, which source and softmax share.
        num_layers: N, of the encoder and of the decoder.
        config: sizes of every layer.
        learned_positions: rows of each of the two tables of learned positions; 0 with sinusoids.
        neighbourhood: r of the restricted self-attention, or None.
        own_rows: rows of embeddings that source or softmax do not share; 0 in the paper.
        logits_bias: whether the logits have a bias; not in the paper.
    """

    vocab_size: int
    num_layers: int
    config: LayerConfig
    learned_positions: int = 0
    neighbourhood: int | None = None
    own_rows: int = 0
    logits_bias: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ModelShape":
        """Reads the sizes from what `Transformer.get_config` returns, or a model.json holds."""
        learned = config["positional_encoding"] == "learned"
        # What was saved before there was a choice does not say.
        tied = config.get("tied_embeddings", "all")
        rows, own_rows = config["vocab_size"], 0
        if tied in OWN_SOURCE_EMBEDDING:
            own_rows += config["source_vocab_size"] or rows
        if tied in OWN_SOFTMAX:
            own_rows += rows
        return cls(
            rows,
            config["num_layers"],
            LayerConfig.of(config["config"]),
            config["max_length"] if learned else 0,
            config["neighbourhood"],
            own_rows,
            config.get("logits_bias", False),
        )
