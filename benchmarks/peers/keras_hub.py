"""keras-hub: its Transformer layers and samplers, Keras's training step.

Its layers drop out attention weights too, at the same rate; there is no flag for them alone. The
caches follow its BART model, except that they are filled by one position, not by the whole prompt.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from keras import ops
from numpy.typing import NDArray

from work import (
    EOS_ID,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    OUTPUT_TOKENS,
    PAD_ID,
    Batch,
    ModelSize,
)

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    model = _Layers(size, dtype).training_model()
    model.compile(
        keras.optimizers.Adam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9),
        loss=_smoothed_loss,
        jit_compile=False,  # slower on a CPU
    )

    def train(batch: Batch) -> float:
        shifted = np.pad(batch.target[:, :-1], ((0, 0), (1, 0)))
        return float(model.train_on_batch((batch.source, shifted), batch.target))

    return train


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`."""
    if variant:
        raise NotImplementedError(f"no variant {variant!r}")
    layers = _Layers(size, arguments.dtype)
    layers.training_model()
    beam = arguments.beam
    sampler = keras_hub.samplers.BeamSampler(beam) if beam > 1 else "greedy"
    sampler = keras_hub.samplers.get(sampler)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
    def translate(source: tf.Tensor) -> tf.Tensor:
        context, cache = layers.start(source, beam)
        prompt = tf.zeros([tf.shape(source)[0], OUTPUT_TOKENS + 1], tf.int32)

        def step(prompt: tf.Tensor, cache: tf.Tensor, index: tf.Tensor) -> tuple:
            # The sampler asks for the token at `index`, which follows from the one before.
            token = ops.slice(prompt, (0, index - 1), (ops.shape(prompt)[0], 1))
            x, logits, cache = layers.step(token, index - 1, cache, context)
            return logits, x, cache

        return sampler(step, prompt, cache=cache, index=1)[:, 1:]

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        for source in sources:
            yield from translate(tf.constant(source)).numpy().tolist()

    return decode


class _Layers:
    """Encoder, decoder and one shared embedding."""

    def __init__(self, size: ModelSize, dtype: str) -> None:
        if dtype not in _POLICIES:
            raise NotImplementedError(f"no {dtype}")
        keras.config.set_dtype_policy(_POLICIES[dtype])
        self.size = size
        self.embedding = keras_hub.layers.ReversibleEmbedding(
            size.vocab_size,
            size.d_model,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=size.d_model**-0.5),
        )
        self.positions = keras_hub.layers.SinePositionEncoding()
        self.dropout = keras.layers.Dropout(size.dropout)
        sizes = (size.d_ff, size.num_heads, size.dropout)
        stack = range(size.num_layers)
        self.encoder = [keras_hub.layers.TransformerEncoder(*sizes) for _ in stack]
        self.decoder = [keras_hub.layers.TransformerDecoder(*sizes) for _ in stack]

    def training_model(self) -> keras.Model:
        """(source, target shifted right) → logits [batch, target_length, vocab], float32."""
        source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
        mask = ops.not_equal(source, PAD_ID)
        memory = self.encode(source, mask)
        x = self.dropout(self.embed(target))
        for layer in self.decoder:
            x = layer(x, memory, encoder_padding_mask=mask)
        logits = ops.cast(self.embedding(x, reverse=True), "float32")
        table = self.embedding.embeddings
        rows = np.arange(self.size.vocab_size)[:, None]
        table.assign(np.where(rows <= EOS_ID, 0.0, ops.convert_to_numpy(table)))
        return keras.Model((source, target), logits)

    def embed(self, ids: tf.Tensor, start: int | tf.Tensor = 0) -> tf.Tensor:
        """Embeds ids [batch, length], positions from `start`."""
        x = self.embedding(ids) * self.size.d_model**0.5
        return x + self.positions(x, start_index=start)

    def encode(self, source: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Encodes [batch, source_length] ids."""
        x = self.dropout(self.embed(source))
        for layer in self.encoder:
            x = layer(x, padding_mask=mask)
        return x

    def start(self, source: tf.Tensor, beam: int) -> tuple[tuple, list]:
        """What the steps need of the source, once a hypothesis, and empty caches."""
        mask = ops.not_equal(source, PAD_ID)
        memory = self.encode(source, mask)
        batch, length = tf.shape(source)[0], tf.shape(source)[1]
        size = self.size
        depth = size.d_model // size.num_heads
        x = self.embed(tf.zeros([batch, 1], tf.int32))
        kept, empty = [], []
        for layer in self.decoder:
            itself = tf.zeros([batch, 2, OUTPUT_TOKENS, size.num_heads, depth], x.dtype)
            memory_cache = tf.zeros([batch, 2, length, size.num_heads, depth], x.dtype)
            x, _, memory_cache = layer(
                x,
                memory,
                encoder_padding_mask=mask,
                self_attention_cache=itself,
                self_attention_cache_update_index=0,
                cross_attention_cache=memory_cache,
                cross_attention_cache_update_index=0,
            )
            kept.append(tf.repeat(memory_cache, beam, axis=0))
            empty.append(itself)
        return (tf.repeat(memory, beam, axis=0), tf.repeat(mask, beam, axis=0), kept), empty

    def step(self, token: tf.Tensor, position: tf.Tensor, cache: list, context: tuple) -> tuple:
        """One position: [hypotheses, 1] ids → vectors, logits [hypotheses, vocab], caches."""
        memory, mask, memory_caches = context
        x = self.embed(token, position)
        filled = []
        for layer, itself, memory_cache in zip(self.decoder, cache, memory_caches, strict=True):
            x, itself, _ = layer(
                x,
                memory,
                encoder_padding_mask=mask,
                self_attention_cache=itself,
                self_attention_cache_update_index=position,
                cross_attention_cache=memory_cache,
            )
            filled.append(itself)
        logits = ops.cast(self.embedding(x, reverse=True), "float32")
        return x, ops.squeeze(logits, axis=1), filled


def _smoothed_loss(target: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Label-smoothed cross entropy, the mean over target tokens."""
    target = ops.cast(target, "int32")
    nll = keras.losses.sparse_categorical_crossentropy(target, logits, from_logits=True)
    uniform = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
    weights = ops.cast(ops.not_equal(target, PAD_ID), "float32")
    loss = (1.0 - LABEL_SMOOTHING) * nll + LABEL_SMOOTHING * uniform
    return ops.sum(loss * weights) / ops.sum(weights)
