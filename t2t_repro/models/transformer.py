"""The Transformer (paper, figure 1): source ids in, scores of target ids out."""

from typing import Any

import gin
import keras
import tensorflow as tf
from keras import ops

from t2t_repro.layers.decoder import Decoder
from t2t_repro.layers.dropout import Dropout
from t2t_repro.layers.embedding import SharedEmbedding
from t2t_repro.layers.encoder import Encoder
from t2t_repro.layers.layer_config import LayerConfig, is_size
from t2t_repro.layers.layout import PADDED, Layout
from t2t_repro.layers.masks import padding_mask
from t2t_repro.layers.positional_encoding import PositionalEncoding
from t2t_repro.layers.shapes import check_ids

_MAX_LAYERS = 1000


@keras.saving.register_keras_serializable(package="t2t_repro")
@gin.configurable
class Transformer(keras.Model):
    """Encoder, decoder, and one embedding for source, target and softmax.

    Args:
        vocab_size: rows of the embedding; at least the size of the subword model.
        num_layers: N, of the encoder and of the decoder.
        config: sizes and rates of every layer; the base model's by default.
        positional_encoding: "interleaved" (the paper), "concatenated" (T2T) or "learned"
            (Table 3, row E). Source and target learn a table each, as in T2T.
        max_length: how many positions are learned, with "learned".
        neighbourhood: r of the restricted self-attention (paper, section 4), or None.
    """

    def __init__(
        self,
        vocab_size: int,
        num_layers: int = 6,
        config: LayerConfig | dict[str, Any] | None = None,
        positional_encoding: str = "interleaved",
        max_length: int | None = None,
        neighbourhood: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        given = {"vocab_size": vocab_size, "num_layers": num_layers}
        given |= {"max_length": max_length or 1, "neighbourhood": neighbourhood or 1}
        for size_name, size in given.items():
            if not is_size(size):
                raise ValueError(
                    f"Transformer.{size_name} is {size!r}, expected an integer, at least 1."
                )
        if num_layers > _MAX_LAYERS:
            raise ValueError(f"num_layers is {num_layers}, expected at most {_MAX_LAYERS}.")
        self.vocab_size = vocab_size
        self.num_layers = num_layers
        self.config = config = LayerConfig.of(config or LayerConfig())
        dtype = self.dtype_policy
        self.embedding = SharedEmbedding(vocab_size, config.d_model, name="embedding", dtype=dtype)
        self.positional_encoding = PositionalEncoding(
            positional_encoding, max_length, name="positional_encoding", dtype=dtype
        )
        self.target_positional_encoding = PositionalEncoding(
            positional_encoding, max_length, name="target_positional_encoding", dtype=dtype
        )
        self.neighbourhood = neighbourhood
        self.source_dropout = Dropout(config.dropout, name="source_dropout", dtype=dtype)
        self.target_dropout = Dropout(config.dropout, name="target_dropout", dtype=dtype)
        self.encoder = Encoder(num_layers, config, neighbourhood, name="encoder", dtype=dtype)
        self.decoder = Decoder(num_layers, config, neighbourhood, name="decoder", dtype=dtype)

    def build(self, *_: Any) -> None:
        """Creates all weights; their shapes depend on the constructor's arguments alone."""
        vectors = (None, None, self.config.d_model)
        self.embedding.build((None, None))
        self.positional_encoding.build(vectors)
        self.target_positional_encoding.build(vectors)
        self.encoder.build(vectors)
        self.decoder.build(vectors)
        self.built = True

    def encode(
        self, source: tf.Tensor, training: bool | None = None, layout: Layout = PADDED
    ) -> tf.Tensor:
        """Encodes source sentences.

        Args:
            source: [batch, source_length], token ids, PAD after the end.
            training: whether dropout is active.
            layout: of the result.

        Returns:
            [batch, source_length, d_model], the memory.

        Raises:
            ValueError: if `source` is not of rank 2.
        """
        x = self.source_dropout(layout.arrange(self.embed_source(source)), training=training)
        return self.encoder(x, padding_mask(source), training=training, layout=layout)

    def embed_source(self, source: tf.Tensor) -> tf.Tensor:
        """What the encoder reads: [batch, source_length] → [batch, source_length, d_model]."""
        check_ids("source", source)
        return self.positional_encoding(self.embedding(source))

    def embed_target(self, target: tf.Tensor) -> tf.Tensor:
        """What the decoder reads: the target shifted right, behind one zero vector.

        Args:
            target: [batch, target_length], token ids.

        Returns:
            [batch, target_length, d_model].

        Raises:
            ValueError: if `target` is not of rank 2.
        """
        check_ids("target", target)
        x = ops.pad(self.embedding(target)[:, :-1], ((0, 0), (1, 0), (0, 0)))
        return self.target_positional_encoding(x)

    def decode(
        self,
        target: tf.Tensor,
        memory: tf.Tensor,
        source: tf.Tensor,
        training: bool | None = None,
        layout: Layout = PADDED,
        memory_layout: Layout = PADDED,
    ) -> tf.Tensor:
        """Reads the target, shifted right, at all positions at once.

        Args:
            target: [batch, target_length], token ids, EOS at the end and PAD after it.
            memory: [batch, source_length, d_model], from `encode`.
            source: [batch, source_length], the ids `memory` was made from.
            training: whether dropout is active.
            layout: of the result.
            memory_layout: of `memory`.

        Returns:
            [batch, target_length, d_model]; position t knows target[:, :t] only.

        Raises:
            ValueError: if `target` is not of rank 2.
        """
        x = self.target_dropout(layout.arrange(self.embed_target(target)), training=training)
        return self.decoder(
            x,
            memory,
            source_mask=padding_mask(source),
            training=training,
            layout=layout,
            memory_layout=memory_layout,
        )

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor], training: bool | None = None) -> tf.Tensor:
        """Scores every target token given the source and the target tokens before it.

        Args:
            inputs: source [batch, source_length] and target [batch, target_length], token ids.
            training: whether dropout is active.

        Returns:
            logits [batch, target_length, vocab]; position t scores target[:, t].
        """
        source, target = inputs
        memory = self.encode(source, training=training)
        return self.embedding.logits(self.decode(target, memory, source, training=training))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "num_layers": self.num_layers,
            "config": self.config.to_dict(),
            "positional_encoding": self.positional_encoding.kind,
            "max_length": self.positional_encoding.max_length,
            "neighbourhood": self.neighbourhood,
        }
