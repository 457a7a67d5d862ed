"""The Transformer (paper, figure 1): source and target ids in, scores of target ids out."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import gin
import keras
import tensorflow as tf

from t2t_repro.config.values import Count, Range, validated
from t2t_repro.errors import UserError
from t2t_repro.model.cache import KeysValues, Past
from t2t_repro.model.decoder import Decoder
from t2t_repro.model.dropout import Dropout
from t2t_repro.model.embedding import SharedEmbedding
from t2t_repro.model.encoder import Encoder
from t2t_repro.model.keras_model import Pair, SourceTargetModel, source_and_target
from t2t_repro.model.kernels.packing import Packed, PackedLayout, Vectors, with_empty_row
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.masks import padding_mask
from t2t_repro.model.positional_encoding import PositionalEncoding
from t2t_repro.model.stack import Depth
from t2t_repro.vocabulary import PAD_ID

_MAX_ROWS = 10_000_000

OWN_SOURCE_EMBEDDING = ("target_softmax", "none")
"""Values of `tied_embeddings` where the source has its own embedding."""

OWN_SOFTMAX = ("source_target", "none")
"""Values of `tied_embeddings` where the softmax has its own matrix."""

Rows = Annotated[int, Range(least=1, most=_MAX_ROWS)]

Sums = TypeVar("Sums")
Loss = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Sums]
"""(vectors [tokens, d_model], softmax's E [vocab, d_model], labels [tokens]) -> sums."""


@keras.saving.register_keras_serializable(package="t2t_repro")
@gin.configurable(denylist=["name", "dtype", "trainable"])
@validated
class Transformer(SourceTargetModel):
    """Encoder, decoder, and one embedding for source, target and softmax (paper, section 3.4).

    Everything computed with the embedding is computed here: only this class knows whether there are
    several.

    Args:
        vocab_size: rows of the embedding; at least the size of the subword model.
        num_layers: N, of the encoder, and of the decoder if it has no number of its own.
        config: sizes and rates of every layer; the base model's by default.
        positional_encoding: "interleaved" (the paper), "halves" (its sines, then its cosines),
            "concatenated" (T2T) or "learned" (Table 3, row E). Source and target learn a table
            each, as in T2T.
        max_length: the number of learned positions, for "learned".
        neighbourhood: r of the restricted self-attention (paper, section 4), or None.
        tied_embeddings: who shares a matrix: "all" (the paper), "target_softmax" (the source has
            its own), "source_target" (the softmax has its own), or "none".
        source_vocab_size: rows of the source's own embedding, if its vocabulary is different.
        logits_bias: whether a bias is added to the logits, [vocab]; none in the paper.
        num_decoder_layers: of the decoder; `num_layers` by default, as in the paper.
        name: of the Keras model.
        dtype: of computations, "float32" or "mixed_bfloat16"; weights are float32.
        trainable: whether its weights are.

    Raises:
        UserError: a size is out of range.
    """

    def __init__(
        self,
        vocab_size: Rows,
        num_layers: Depth = 6,
        config: LayerConfig | dict[str, Any] | None = None,
        positional_encoding: Literal[
            "interleaved", "halves", "concatenated", "learned"
        ] = "interleaved",
        max_length: Rows | None = None,
        neighbourhood: Count | None = None,
        tied_embeddings: Literal["all", "target_softmax", "source_target", "none"] = "all",
        source_vocab_size: Rows | None = None,
        logits_bias: bool = False,
        num_decoder_layers: Depth | None = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(name=name, dtype=dtype, trainable=trainable, autocast=False)
        if source_vocab_size and tied_embeddings not in OWN_SOURCE_EMBEDDING:
            raise UserError(
                f"Transformer.source_vocab_size is {source_vocab_size}, but tied_embeddings="
                f"{tied_embeddings!r} has the source share the target's embedding: bind "
                "'target_softmax' or 'none'."
            )
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size or vocab_size
        self.tied_embeddings = tied_embeddings
        self.num_layers = num_layers
        self.num_decoder_layers: int = num_decoder_layers or num_layers
        self.config = config = LayerConfig.of(config or LayerConfig())
        policy = self.dtype_policy
        self.embedding = self._new_embedding(vocab_size, "embedding")
        # None if it is the embedding above.
        self.own_source_embedding = self.own_softmax = None
        if tied_embeddings in OWN_SOURCE_EMBEDDING:
            self.own_source_embedding = self._new_embedding(
                self.source_vocab_size, "source_embedding"
            )
        if tied_embeddings in OWN_SOFTMAX:
            self.own_softmax = self._new_embedding(vocab_size, "softmax")
        self.has_logits_bias = logits_bias
        self.logits_bias: keras.Variable | None = None
        self.positional_encoding = PositionalEncoding(
            positional_encoding, max_length, name="positional_encoding", dtype=policy
        )
        self.target_positional_encoding = PositionalEncoding(
            positional_encoding, max_length, name="target_positional_encoding", dtype=policy
        )
        self.neighbourhood = neighbourhood
        self.source_dropout = Dropout(config.dropout, name="source_dropout", dtype=policy)
        self.target_dropout = Dropout(config.dropout, name="target_dropout", dtype=policy)
        self.encoder = Encoder(num_layers, config, neighbourhood, name="encoder", dtype=policy)
        self.decoder = Decoder(
            self.num_decoder_layers, config, neighbourhood, name="decoder", dtype=policy
        )

    def _new_embedding(self, rows: int, name: str) -> SharedEmbedding:
        return SharedEmbedding(rows, self.config.d_model, name=name, dtype=self.dtype_policy)

    def build(self, inputs_shape: Pair | None = None) -> None:
        """Creates all weights; their shapes depend on the constructor's arguments only."""
        vectors = (None, None, self.config.d_model)
        for embedding in (self.embedding, self.source_embedding, self.softmax):
            if not embedding.built:
                embedding.build((None, None))
        if self.has_logits_bias:
            self.logits_bias = self.add_weight(
                name="logits_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
            )
        self.positional_encoding.build(vectors)
        self.target_positional_encoding.build(vectors)
        self.source_dropout.build(vectors)
        self.target_dropout.build(vectors)
        self.encoder.build(vectors)
        self.decoder.build(vectors)
        self.built = True

    @property
    def source_embedding(self) -> SharedEmbedding:
        """The embedding of source ids: the shared one, or their own."""
        return self.own_source_embedding or self.embedding

    @property
    def softmax(self) -> SharedEmbedding:
        """The matrix of the softmax: the shared embedding, or its own."""
        return self.own_softmax or self.embedding

    @property
    def longest(self) -> int | None:
        """The most positions of a sentence: the learned ones, or None for no limit."""
        encoding = self.positional_encoding
        return encoding.max_length if encoding.kind == "learned" else None

    def embed_source(self, source: tf.Tensor, layout: PackedLayout | None = None) -> Vectors:
        """Computes the encoder's input.

        Args:
            source: [batch, source_length], token ids.
            layout: of its tokens, to pack the vectors.

        Returns:
            [batch, source_length, d_model], or packed.

        Raises:
            ValueError: `source` is not of rank 2.
        """
        return self.positional_encoding(_embed(self.source_embedding, source, layout))

    def embed_target(self, target: tf.Tensor, layout: PackedLayout | None = None) -> Vectors:
        """Computes the decoder's input: the target shifted right, after PAD, a zero vector.

        Args:
            target: [batch, target_length], token ids.
            layout: of its tokens, to pack the vectors.

        Returns:
            [batch, target_length, d_model], or packed.

        Raises:
            ValueError: `target` is not of rank 2.
        """
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=PAD_ID)
        return self.target_positional_encoding(_embed(self.embedding, shifted, layout))

    def logits(self, vectors: tf.Tensor, transposed_table: tf.Tensor | None = None) -> tf.Tensor:
        """Scores every entry of the vocabulary: [batch, length, d_model] → [..., vocab]."""
        logits = self.softmax.logits(vectors, transposed_table)
        if self.logits_bias is None:
            return logits
        return logits + tf.cast(tf.convert_to_tensor(self.logits_bias), logits.dtype)

    def encode(
        self, source: tf.Tensor, training: bool | None = None, layout: PackedLayout | None = None
    ) -> Vectors:
        """Encodes source sentences.

        Args:
            source: [batch, source_length], token ids, PAD after the end.
            training: whether dropout is active.
            layout: of its tokens, to pack them without padding; see `kernels.packing`.

        Returns:
            The memory, [batch, source_length, d_model], or packed.

        Raises:
            ValueError: `source` is not of rank 2.
        """
        x = self.source_dropout(self.embed_source(source, layout), training=training)
        return self.encoder(x, padding_mask(source), training=training)

    def decode(
        self,
        target: tf.Tensor,
        memory: Vectors,
        source: tf.Tensor,
        training: bool | None = None,
        layout: PackedLayout | None = None,
    ) -> Vectors:
        """Computes the decoder's output at all positions of the target, shifted right.

        Args:
            target: [batch, target_length], token ids, EOS at the end and PAD after it.
            memory: [batch, source_length, d_model], from `encode`.
            source: [batch, source_length], the ids `memory` was made from.
            training: whether dropout is active.
            layout: of the target's tokens, to pack them without padding.

        Returns:
            [batch, target_length, d_model], or packed; position t sees target[:, :t] only.

        Raises:
            ValueError: `target` is not of rank 2.
        """
        x = self.target_dropout(self.embed_target(target, layout), training=training)
        return self.decoder(x, memory, source_mask=padding_mask(source), training=training)

    def decode_next(
        self,
        ids: tf.Tensor,
        position: tf.Tensor,
        memory: list[KeysValues],
        source_mask: tf.Tensor,
        past: list[Past],
        transposed_table: tf.Tensor,
    ) -> tf.Tensor:
        """Scores the next token of every hypothesis of a beam.

        Args:
            ids: [batch, beam], the last token of each; PAD at position 0.
            position: scalar, the number of tokens of each hypothesis.
            memory: of every layer, from the decoder's `project_memory`.
            source_mask: boolean [batch, 1, source_length].
            past: of every layer, the earlier positions; this one is added.
            transposed_table: of the softmax, E^T [d_model, vocab].

        Returns:
            Logits [batch, beam, vocab].
        """
        x = self.embedding(ids)
        # `beam` takes the place of `length`: all of it has the same position.
        encoding = self.target_positional_encoding.encode(tf.reshape(position, [1]))
        x = x + tf.cast(encoding, x.dtype)[None]
        vectors = self.decoder(x, memory, source_mask=source_mask, past=past)
        return self.logits(vectors, transposed_table)

    def call(self, inputs: Pair, training: bool | None = None) -> tf.Tensor:
        """Scores every target token given the source and the target tokens before it.

        Args:
            inputs: source [batch, source_length] and target [batch, target_length], token ids; or
                a dictionary of both. The decoder sees the target shifted right, so the same ids
                are the labels.
            training: whether dropout is active.

        Returns:
            Logits [batch, target_length, vocab]; position t scores target[:, t].
        """
        source, target = source_and_target(inputs)
        memory = self.encode(source, training=training)
        return self.logits(self.decode(target, memory, source, training=training))

    def loss_sums(
        self,
        source: tf.Tensor,
        target: tf.Tensor,
        loss: Loss[Sums],
        training: bool | None = None,
        capacity: tf.Tensor | None = None,
    ) -> Sums:
        """Sums a loss over the target tokens, with teacher forcing.

        Args:
            source: [batch, source_length], token ids.
            target: [batch, target_length], token ids; PAD is ignored.
            loss: such as `model.loss.CrossEntropy`.
            training: whether dropout is active.
            capacity: [2], the number of vectors that source and target are packed into, each at
                least one more than its tokens; None for no packing. Both give the same sums.

        Returns:
            The result of `loss`.
        """
        if capacity is None:
            memory = self.encode(source, training)
            vectors = self.decode(target, memory, source, training)
        else:
            source, target = with_empty_row(source), with_empty_row(target)
            of_source = PackedLayout.of(source, capacity[0])
            of_target = PackedLayout.of(target, capacity[1])
            memory = self.encode(source, training, of_source)
            vectors = self.decode(target, memory, source, training, of_target).vectors
            target = of_target.pack_ids(target)
        rows, table = tf.reshape(vectors, [-1, self.config.d_model]), self.softmax.table_tensor()
        if self.logits_bias is not None:
            rows, table = _with_bias(rows, table, tf.convert_to_tensor(self.logits_bias))
        return loss(rows, table, tf.reshape(target, [-1]))

    def log_probabilities(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Computes log P(target | source), including EOS, in nats.

        Args:
            source: [batch, source_length], token ids.
            target: [batch, target_length], token ids.

        Returns:
            [batch], float32.
        """
        return tf.reduce_sum(self.token_log_probabilities(source, target), axis=1)

    def token_log_probabilities(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Computes log P(target[:, t] | source, target[:, :t]), in nats; 0 for PAD.

        Args:
            source: [batch, source_length], token ids.
            target: [batch, target_length], token ids.

        Returns:
            [batch, target_length], float32.
        """
        logits = tf.cast(self.call((source, target), training=False), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        return tf.where(target != PAD_ID, -nll, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        is_symmetric = self.num_decoder_layers == self.num_layers
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "num_layers": self.num_layers,
            "config": self.config.to_dict(),
            "positional_encoding": self.positional_encoding.kind,
            "max_length": self.positional_encoding.max_length,
            "neighbourhood": self.neighbourhood,
            "tied_embeddings": self.tied_embeddings,
            "source_vocab_size": self.source_vocab_size if self.own_source_embedding else None,
            "logits_bias": self.has_logits_bias,
            "num_decoder_layers": None if is_symmetric else self.num_decoder_layers,
        }


def _embed(embedding: SharedEmbedding, ids: tf.Tensor, layout: PackedLayout | None) -> Vectors:
    if layout is None:
        return embedding(ids)
    return Packed(embedding(layout.pack_ids(ids)), layout)


def _with_bias(rows: tf.Tensor, table: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns x' and E' with x' E'^T = x E^T + b: the bias is one more column of E.

    Args:
        rows: [tokens, d_model], x.
        table: [vocab, d_model], E.
        bias: [vocab], b.
    """
    # Columns of zeros up to a multiple of 8, which GPUs multiply faster.
    ones = tf.pad(tf.ones([tf.shape(rows)[0], 1], rows.dtype), [[0, 0], [0, 7]])
    column = tf.pad(bias[:, None], [[0, 0], [0, 7]])
    return tf.concat([rows, ones], axis=1), tf.concat([table, column], axis=1)


def size_bindings(model: Transformer) -> str:
    """Returns the gin bindings of a model's sizes, one per line.

    A run that starts from an imported model, by `train.init_from`, includes them. They leave out
    defaults, and the sizes of the vocabularies, which follow from the subwords.
    """
    config = model.get_config()
    layers = config["config"]
    of_layers = {
        field.name: layers[field.name]
        for field in dataclasses.fields(LayerConfig)
        if layers[field.name] != field.default
    }
    arguments = inspect.signature(Transformer.__init__).parameters
    others = {"config", "name", "dtype", "trainable", "vocab_size", "source_vocab_size"}
    of_model = {
        name: config[name]
        for name, argument in arguments.items()
        if name in config.keys() - others and config[name] != argument.default
    }
    lines = [f"Transformer.{name} = {value!r}" for name, value in of_model.items()]
    lines += [f"LayerConfig.{name} = {value!r}" for name, value in of_layers.items()]
    return "".join(f"{line}\n" for line in lines)
