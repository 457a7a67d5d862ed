"""OpenNMT-tf 2.32 on the newest TensorFlow for which all it needs can be had (2.12).

Its mixed precision is float16 alone, which is for GPUs.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import opennmt
import tensorflow as tf
from numpy.typing import NDArray

from work import EOS_ID, LABEL_SMOOTHING, LEARNING_RATE, OUTPUT_TOKENS, PAD_ID, Batch, ModelSize

_IDS = tf.TensorSpec([None, None], tf.int32)


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    model = _model(size, dtype, {"label_smoothing": LABEL_SMOOTHING, "average_loss_in_time": True})
    optimizer = model.get_optimizer()

    @tf.function(input_signature=[_IDS, _IDS])
    def update(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        labels = {**_features(tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=1))}
        labels |= {"ids_out": target, "length": _lengths(target)}
        with tf.GradientTape() as tape:
            outputs, _ = model(_features(source), labels, training=True)
            total, normalizer, _ = model.compute_loss(outputs, labels, training=True)
            loss = total / normalizer
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # noqa: B905 (TF 2.12)
        return loss

    return lambda batch: float(update(batch.source, batch.target))


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`."""
    if variant:
        raise NotImplementedError(f"no variant {variant!r}")
    params = {
        "beam_width": arguments.beam,
        "length_penalty": 0.6,
        "minimum_decoding_length": OUTPUT_TOKENS,
        "maximum_decoding_length": OUTPUT_TOKENS,
    }
    model = _model(size, arguments.dtype, params)

    @tf.function(input_signature=[_IDS])
    def translate(source: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        _, predictions = model(_features(source))
        return predictions["tokens"][:, 0], predictions["length"][:, 0]

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        for source in sources:
            tokens, lengths = translate(tf.constant(source))
            for row, length in zip(*(x.numpy().tolist() for x in (tokens, lengths)), strict=True):
                yield [EOS_ID if token == b"</s>" else -1 for token in row[:length]]

    return decode


def _model(size: ModelSize, dtype: str, params: dict[str, Any]) -> opennmt.models.Transformer:
    if dtype != "float32":
        raise NotImplementedError(f"no {dtype}: its mixed precision is float16")
    model = opennmt.models.Transformer(
        source_inputter=opennmt.inputters.WordEmbedder(embedding_size=size.d_model),
        target_inputter=opennmt.inputters.WordEmbedder(embedding_size=size.d_model),
        num_layers=size.num_layers,
        num_units=size.d_model,
        num_heads=size.num_heads,
        ffn_inner_dim=size.d_ff,
        dropout=size.dropout,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        pre_norm=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    with tempfile.TemporaryDirectory() as directory:
        vocabulary = Path(directory) / "vocabulary"
        # It adds an entry for unknown tokens itself.
        names = ["<blank>", "<s>", "</s>", *(f"t{i}" for i in range(3, size.vocab_size - 1))]
        vocabulary.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        files = {"source_vocabulary": str(vocabulary), "target_vocabulary": str(vocabulary)}
        optimizer = {"optimizer": "Adam", "learning_rate": LEARNING_RATE}
        optimizer |= {"optimizer_params": {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}}
        model.initialize(files, params={**optimizer, **params})
        model.create_variables()
    return model


def _features(ids: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"ids": ids, "length": _lengths(ids)}


def _lengths(ids: tf.Tensor) -> tf.Tensor:
    return tf.math.count_nonzero(ids != PAD_ID, axis=1, dtype=tf.int32)
