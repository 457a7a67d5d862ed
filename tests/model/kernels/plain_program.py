"""Losses, gradients and scores of small models, as JSON: with the kernels, or by the formulas."""

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.step_decoder import StepDecoder
from t2t_repro.model.transformer import Transformer


def results():
    rng = np.random.default_rng(0)
    source = rng.integers(2, 40, (3, 9)).astype(np.int32)
    target = rng.integers(2, 40, (3, 7)).astype(np.int32)
    source[1, 4:], target[1, 3:] = 0, 0
    found: dict[str, Any] = {"plain": kernels.PLAIN}
    cases: list[tuple[Any, int | None]] = [("attention", None), ("attention", 3), ("ssru", None)]
    for kind, neighbourhood in cases:
        keras.utils.set_random_seed(0)
        sizes = LayerConfig(16, 32, 2, dropout=0.0, activation="gelu", decoder_self_attention=kind)
        model = Transformer(40, 1, sizes, neighbourhood=neighbourhood)
        model.build()
        weights = [weight.value for weight in model.trainable_variables]
        with tf.GradientTape() as tape:
            sums = model.loss_sums(source, target, CrossEntropy(), training=True)
        gradients = tape.gradient(sums.loss, weights)
        decoder = StepDecoder(model, 3)
        state = decoder.make_room(decoder.begin(tf.constant(source)), 5)
        ids, parents, scores = tf.zeros([3, 3], tf.int32), tf.constant([[0, 0, 2]] * 3), []
        for position in range(5):
            logits, state = decoder.step(ids, parents, tf.constant(position), state)
            scores.append(tf.reduce_logsumexp(logits, axis=2).numpy().tolist())
            ids = tf.constant(rng.integers(2, 40, (3, 3)), tf.int32)
        found[f"{kind} {neighbourhood}"] = {
            "sums": [float(value) for value in sums],
            "norms": [float(tf.norm(tf.convert_to_tensor(gradient))) for gradient in gradients],
            "scores": scores,
        }
    return found


if __name__ == "__main__":
    print(json.dumps(results()))
