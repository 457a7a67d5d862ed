"""The Transformer (paper, figure 1): source and target ids in, scores of target ids out."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import keras
import tensorflow as tf

from t2t_repro.model import settings
from t2t_repro.model.cache import KeysValues, Past, State
from t2t_repro.model.decoder import Decoder
from t2t_repro.model.dense import Projection
from t2t_repro.model.dropout import Dropout
from t2t_repro.model.embedding import SharedEmbedding
from t2t_repro.model.encoder import Encoder
from t2t_repro.model.keras_model import Pair, SourceTargetModel, source_and_target
from t2t_repro.model.kernels.packing import Packed, PackedLayout, Vectors, with_empty_row
from t2t_repro.model.masks import padding_mask
from t2t_repro.model.positional_encoding import PositionalEncoding
from t2t_repro.model.settings import LayerConfig, Positions, TiedEmbeddings, TransformerSettings
from t2t_repro.vocabulary import EOS_ID, PAD_ID

Sums = TypeVar("Sums")
Loss = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Sums]
"""(vectors [tokens, d_model], softmax's E [vocab, d_model], labels [tokens]) -> sums."""


@keras.saving.register_keras_serializable(package="t2t_repro")
class Transformer(SourceTargetModel):
    """The encoder, the decoder, and their shared embedding.

    One embedding serves source, target and softmax (paper, section 3.4). Everything computed with
    the embedding is computed here: only this class knows whether there are several.

    Args:
        vocab_size: rows of the embedding; at least the size of the subword model.
        num_layers: N, of the encoder, and of the decoder if it has no number of its own.
        config: sizes and rates of every layer; the base model's by default.
        positional_encoding, max_length, neighbourhood, tied_embeddings, source_vocab_size,
            logits_bias, num_decoder_layers, first_position, start_id, source_eos: see
            `TransformerSettings`, which checks them.
        name: the Keras model's name.
        dtype: of computations, "float32" or "mixed_bfloat16"; weights are float32.
        trainable: whether its weights are updated in training.
    """

    def __init__(
        self,
        vocab_size: int,
        num_layers: int = 6,
        config: LayerConfig | dict[str, Any] | None = None,
        positional_encoding: Positions = "interleaved",
        max_length: int | None = None,
        neighbourhood: int | None = None,
        tied_embeddings: TiedEmbeddings = "all",
        source_vocab_size: int | None = None,
        logits_bias: bool = False,
        num_decoder_layers: int | None = None,
        first_position: int = 0,
        start_id: int = PAD_ID,
        source_eos: bool = True,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        # Without `autocast`, which would round ids that Keras gives as floating point.
        super().__init__(name=name, dtype=dtype, trainable=trainable, autocast=False)
        config = LayerConfig.of(config or {})
        self.settings = TransformerSettings(
            vocab_size, num_layers, config, positional_encoding, max_length, neighbourhood,
            tied_embeddings, source_vocab_size, logits_bias, num_decoder_layers,
            first_position, start_id, source_eos,
        )  # fmt: skip
        self.vocab_size = vocab_size
        self.source_vocab_size = source_vocab_size or vocab_size
        self.tied_embeddings = tied_embeddings
        self.num_layers = num_layers
        self.num_decoder_layers = num_decoder_layers or num_layers
        self.config = config
        self.neighbourhood = neighbourhood
        policy = self.dtype_policy
        self.embedding = self._new_embedding(vocab_size, "embedding")
        # None if it is the embedding above.
        self.own_source_embedding = self.own_softmax = None
        if tied_embeddings in settings.OWN_SOURCE_EMBEDDING:
            rows = self.source_vocab_size
            self.own_source_embedding = self._new_embedding(rows, "source_embedding")
        if tied_embeddings in settings.OWN_SOFTMAX:
            self.own_softmax = self._new_embedding(vocab_size, "softmax")
        self.logits_bias: keras.Variable | None = None
        self.positional_encoding = self._new_encoding("positional_encoding")
        self.target_positional_encoding = self._new_encoding("target_positional_encoding")
        self.source_dropout = Dropout(config.dropout, name="source_dropout", dtype=policy)
        self.target_dropout = Dropout(config.dropout, name="target_dropout", dtype=policy)
        self.encoder = Encoder(num_layers, config, self.neighbourhood, name="encoder", dtype=policy)
        self.decoder = Decoder(
            self.num_decoder_layers, config, self.neighbourhood, name="decoder", dtype=policy
        )

    def _new_encoding(self, name: str) -> PositionalEncoding:
        """Makes the positional encoding of source or target: learned ones have a table each."""
        given = self.settings
        kind, max_length, first = given.positional_encoding, given.max_length, given.first_position
        return PositionalEncoding(kind, max_length, first, name=name, dtype=self.dtype_policy)

    def _new_embedding(self, rows: int, name: str) -> SharedEmbedding:
        """Makes an embedding of `rows` ids: the shared one, the source's or the softmax's."""
        return SharedEmbedding(rows, self.config.d_model, name=name, dtype=self.dtype_policy)

    def build(self, inputs_shape: Pair | None = None) -> None:
        """Creates all weights; `inputs_shape`, which Keras passes, has no influence on them."""
        x_shape = (None, None, self.config.d_model)
        for embedding in (self.embedding, self.source_embedding, self.softmax):
            if not embedding.built:  # A shared one comes up to three times.
                embedding.build((None, None))
        if self.settings.logits_bias:
            self.logits_bias = self.add_weight(
                name="logits_bias", shape=(self.vocab_size,), initializer="zeros", autocast=False
            )
        self.positional_encoding.build(x_shape)
        self.target_positional_encoding.build(x_shape)
        self.encoder.build(x_shape)
        self.decoder.build(x_shape)
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
        """The most positions of a sentence: the number of learned ones, or None for no limit."""
        return self.settings.max_length if self.settings.positional_encoding == "learned" else None

    def encoded_ids(self, source: tf.Tensor) -> tf.Tensor:
        """Returns the ids that the encoder sees: [batch, source_length] → the same shape.

        EOS becomes PAD if the model was trained without it. A sentence of EOS alone keeps it:
        something must be attended to.
        """
        if self.settings.source_eos:
            return source
        is_end = (source == EOS_ID) & (tf.range(tf.shape(source)[1]) > 0)
        return tf.where(is_end, tf.cast(PAD_ID, source.dtype), source)

    def embed_source(self, source: tf.Tensor, layout: PackedLayout | None = None) -> Vectors:
        """Computes the encoder's input from ids: [batch, source_length, d_model], or packed."""
        return self.positional_encoding(_embed(self.source_embedding, source, layout))

    def embed_target(self, target: tf.Tensor, layout: PackedLayout | None = None) -> Vectors:
        """Computes the decoder's input from target ids, shifted right.

        It begins with the vector of `start_id`: by default PAD's, which is zero. The shape is
        [batch, target_length, d_model], or packed.
        """
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=self.settings.start_id)
        return self.target_positional_encoding(_embed(self.embedding, shifted, layout))

    def output_layer(self, ids: tf.Tensor | None = None) -> Projection:
        """Returns x E^T + b, the projection to the scores of all ids, or of the given [ids]."""
        matrix = self.softmax.transposed_table(ids)
        if self.logits_bias is None:
            return Projection(matrix, None)
        bias = tf.cast(self.logits_bias, matrix.dtype)
        return Projection(matrix, bias if ids is None else tf.gather(bias, ids))

    def logits(self, vectors: tf.Tensor, output_layer: Projection | None = None) -> tf.Tensor:
        """Scores all ids, or those of an `output_layer`: [..., d_model] → [..., vocab or ids]."""
        layer = output_layer or self.output_layer()
        return layer.of(tf.cast(vectors, layer.matrix.dtype))

    def encode(
        self, source: tf.Tensor, training: bool | None = None, layout: PackedLayout | None = None
    ) -> Vectors:
        """Encodes source ids [batch, source_length], PAD after the end.

        With a layout of its tokens they are packed without padding; see `kernels.packing`.

        Returns:
            the memory, [batch, source_length, d_model], or packed.
        """
        source = self.encoded_ids(source)
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
        """Computes the decoder's output at all positions, from the target shifted right.

        Args:
            target: [batch, target_length], token ids, EOS at the end and PAD after it.
            memory: [batch, source_length, d_model], from `encode`.
            source: [batch, source_length], the ids that `memory` was made from; where `encoded_ids`
                makes PAD of EOS, it is not attended to.
            training: whether dropout is active.
            layout: the target's, to pack its tokens without padding; see `kernels.packing`.

        Returns:
            [batch, target_length, d_model], or packed; position t sees target[:, :t] only.
        """
        x = self.target_dropout(self.embed_target(target, layout), training=training)
        source_mask = padding_mask(self.encoded_ids(source))
        return self.decoder(x, memory, source_mask=source_mask, training=training)

    def decode_next(
        self,
        ids: tf.Tensor,
        position: tf.Tensor,
        memory: list[KeysValues],
        source_mask: tf.Tensor,
        past: list[Past | State],
        output_layer: Projection,
    ) -> tf.Tensor:
        """Scores the next token of every hypothesis of a beam.

        Args:
            ids: [batch, beam], the last token of each; PAD at position 0.
            position: scalar, the number of tokens of each hypothesis.
            memory: keys and values of every layer, from the decoder's `project_memory`.
            source_mask: boolean [batch, 1, source_length].
            past: the earlier positions of every layer; this position is added in place.
            output_layer: this model's `output_layer`, for all ids or some.

        Returns:
            logits [batch, beam, vocab].
        """
        if self.settings.start_id != PAD_ID:
            ids = tf.where(position == 0, self.settings.start_id, ids)
        x = self.embedding(ids)
        # The axis `beam` takes the place of `length`: all hypotheses have the same position.
        encoding = self.target_positional_encoding.encode(tf.reshape(position, [1]))
        x = x + tf.cast(encoding, x.dtype)[None]
        vectors = self.decoder(x, memory, source_mask=source_mask, past=past)
        return self.logits(vectors, output_layer)

    def call(self, inputs: Pair, training: bool | None = None) -> tf.Tensor:
        """Scores every target token from the source and earlier target tokens.

        Args:
            inputs: source [batch, source_length] and target [batch, target_length], token ids; or
                a dictionary of both. The decoder sees the target shifted right, so the same ids
                are the labels.
            training: whether dropout is active.

        Returns:
            logits [batch, target_length, vocab]; position t scores target[:, t].
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
            capacity: [2], the numbers of vectors that source and target are packed into, each at
                least one more than its tokens; None for no packing, which gives the same sums.

        Returns:
            the result of `loss`.
        """
        source_layout = target_layout = None
        labels = target
        if capacity is not None:
            source, target = with_empty_row(source), with_empty_row(target)
            source_layout = PackedLayout.of(self.encoded_ids(source), capacity[0])
            target_layout = PackedLayout.of(target, capacity[1])
            labels = target_layout.pack_ids(target)
        memory = self.encode(source, training, source_layout)
        output = self.decode(target, memory, source, training, target_layout)
        vectors = output.vectors if isinstance(output, Packed) else output
        x = tf.reshape(vectors, [-1, self.config.d_model])
        table = self.softmax.table_tensor()
        if self.logits_bias is not None:
            x, table = _with_bias(x, table, tf.convert_to_tensor(self.logits_bias))
        return loss(x, table, tf.reshape(labels, [-1]))

    def token_log_probabilities(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Computes log P(target[:, t] | source, target[:, :t]), in nats; 0 for PAD.

        The result is [batch, target_length], float32.
        """
        logits = tf.cast(self.call((source, target), training=False), tf.float32)
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
        return tf.where(target != PAD_ID, -nll, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Returns constructor arguments that make the same model."""
        has_equal_depths = self.num_decoder_layers == self.num_layers
        return {
            **super().get_config(),
            **dataclasses.asdict(self.settings),
            # Equal models have equal arguments, however they were made: the size of an own source
            # embedding is always given, and the decoder's depth only if it differs.
            "source_vocab_size": self.source_vocab_size if self.own_source_embedding else None,
            "num_decoder_layers": None if has_equal_depths else self.num_decoder_layers,
        }


def _embed(embedding: SharedEmbedding, ids: tf.Tensor, layout: PackedLayout | None) -> Vectors:
    """Embeds ids [batch, length]: [batch, length, d_model], or packed if there is a layout."""
    if layout is None:
        return embedding(ids)
    return Packed(embedding(layout.pack_ids(ids)), layout)


def _with_bias(x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns x' and E' with x' E'^T = x E^T + b: the bias [vocab] is one more column of E."""
    # With seven columns of zeros: GPUs multiply faster if the width is a multiple of 8.
    ones = tf.pad(tf.ones([tf.shape(x)[0], 1], x.dtype), [[0, 0], [0, 7]])
    column = tf.pad(bias[:, None], [[0, 0], [0, 7]])
    return tf.concat([x, ones], axis=1), tf.concat([table, column], axis=1)


def gin_bindings(model: Transformer) -> str:
    """Returns gin bindings of the settings that differ from their defaults, one a line.

    A line is such as "LayerConfig.d_ff = 4096"; the base model has none. The vocabulary sizes are
    left out, since they follow from the subwords. A run that starts from an imported model
    (`train.init_from`) includes these lines.
    """
    config = model.get_config()
    del config["vocab_size"], config["source_vocab_size"]
    layer_config = config.pop("config")
    bindings = _bindings("Transformer", TransformerSettings, config)
    return bindings + _bindings("LayerConfig", LayerConfig, layer_config)


def _bindings(name: str, settings: type[Any], values: dict[str, Any]) -> str:
    """Returns bindings of the fields of a dataclass whose values differ from their defaults.

    Fields without a value in `values` are left out.
    """
    fields = dataclasses.fields(settings)
    changed = [field for field in fields if values.get(field.name, field.default) != field.default]
    return "".join(f"{name}.{field.name} = {values[field.name]!r}\n" for field in changed)
