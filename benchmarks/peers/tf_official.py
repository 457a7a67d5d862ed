"""TensorFlow's official models: Seq2SeqTransformer, with a training step of its task's kind.

Pre-norm, its default, which adds a norm behind either stack: post-norm fails in bfloat16.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
import tf_keras
from numpy.typing import NDArray
from official.nlp.modeling.models import (
    Seq2SeqTransformer,
    TransformerDecoder,
    TransformerEncoder,
)

from work import EOS_ID, LABEL_SMOOTHING, LEARNING_RATE, OUTPUT_TOKENS, PAD_ID, Batch, ModelSize

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
_IDS = tf.TensorSpec([None, None], tf.int32)


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    model = _model(size, dtype, beam=4)
    optimizer = tf_keras.optimizers.Adam(LEARNING_RATE, beta_2=0.98, epsilon=1e-9)
    optimizer.build(model.trainable_variables)

    @tf.function(input_signature=[_IDS, _IDS])
    def update(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model({"inputs": source, "targets": target}, training=True)
            loss = _smoothed_loss(target, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda batch: float(update(batch.source, batch.target))


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`."""
    if variant:
        raise NotImplementedError(f"no variant {variant!r}")
    model = _model(size, arguments.dtype, arguments.beam)

    @tf.function(input_signature=[_IDS])
    def translate(source: tf.Tensor) -> tf.Tensor:
        return model({"inputs": source}, training=False)["outputs"]

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        for source in sources:
            yield from translate(tf.constant(source)).numpy().tolist()

    return decode


def _model(size: ModelSize, dtype: str, beam: int) -> Seq2SeqTransformer:
    if dtype not in _POLICIES:
        raise NotImplementedError(f"no {dtype}")
    tf_keras.mixed_precision.set_global_policy(_POLICIES[dtype])
    sizes = {
        "num_layers": size.num_layers,
        "num_attention_heads": size.num_heads,
        "intermediate_size": size.d_ff,
        "dropout_rate": size.dropout,
    }
    model = Seq2SeqTransformer(
        vocab_size=size.vocab_size,
        embedding_width=size.d_model,
        dropout_rate=size.dropout,
        decode_max_length=OUTPUT_TOKENS,
        beam_size=beam,
        encoder_layer=TransformerEncoder(**sizes),
        decoder_layer=TransformerDecoder(**sizes),
    )
    ids = tf.ones([1, 2], tf.int32)
    model({"inputs": ids, "targets": ids}, training=True)
    # A logit of 0, far below the best ones: no translation ends before the limit.
    table = model.embedding_lookup.embeddings
    rows = np.arange(size.vocab_size)[:, None]
    table.assign(np.where(rows <= EOS_ID, 0.0, table.numpy()))
    return model


def _smoothed_loss(target: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Label-smoothed cross entropy, the mean over target tokens.

    Its own task makes smoothed one-hot targets of the logits' size; this needs none.
    """
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits)
    uniform = tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)
    weights = tf.cast(target != PAD_ID, tf.float32)
    loss = (1.0 - LABEL_SMOOTHING) * nll + LABEL_SMOOTHING * uniform
    return tf.reduce_sum(loss * weights) / tf.reduce_sum(weights)
