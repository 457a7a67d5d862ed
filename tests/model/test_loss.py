import functools
import math
import re

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model import kernels
from t2t_repro.model.keras_model import LabelSmoothedCrossEntropy
from t2t_repro.model.kernels import cross_entropy as blocks
from t2t_repro.model.kernels import gpu
from t2t_repro.model.loss import CrossEntropy, smoothing_entropy
from tests.oracle import VARIANTS, oracle_arrays
from tests.reference import log_softmax, softmax

VOCAB, D_MODEL = 11, 6


def slow_loss(vectors, table, target, epsilon):
    """Soft targets written out, token by token: the sums, and the gradients of the loss."""
    vectors, table = np.asarray(vectors, np.float64), np.asarray(table, np.float64)
    vocab = len(table)
    loss = nll = 0.0
    tokens = 0
    d_vectors, d_table = np.zeros_like(vectors), np.zeros_like(table)
    for place in np.argwhere(target != 0):
        x, label = vectors[tuple(place)], target[tuple(place)]
        soft = np.full(vocab, epsilon / (vocab - 1))
        soft[label] = 1 - epsilon
        log_p = log_softmax(table @ x)
        entropy = -sum(q * math.log(q) for q in soft if q > 0)
        loss += -soft @ log_p - entropy
        nll -= log_p[label]
        tokens += 1
        d_logits = softmax(table @ x) - soft
        d_vectors[tuple(place)] = d_logits @ table
        d_table += np.outer(d_logits, x)
    return (loss, nll, tokens), (d_vectors, d_table)


def random_batch(batch=3, length=5, vocab=VOCAB, d_model=D_MODEL, seed=0):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(batch, length, d_model)).astype(np.float32)
    table = rng.normal(size=(vocab, d_model)).astype(np.float32)
    target = rng.integers(0, vocab, (batch, length)).astype(np.int32)
    target[0, 0], target[-1, -1] = 0, vocab - 1
    return vectors, table, target


def loss_sums(vectors, table, target, epsilon):
    """The loss of a batch [batch, length], as `Transformer.loss_sums` asks for it."""
    rows = tf.reshape(vectors, [-1, vectors.shape[-1]])
    return CrossEntropy(epsilon)(rows, table, tf.reshape(target, [-1]))


def sums_and_gradients(vectors, table, target, epsilon, dtype=tf.float32, loss=None):
    """As the train step has them, activations of `dtype`; or the mean of a loss of Keras's."""
    x, table, target = map(tf.convert_to_tensor, (vectors, table, target))
    with tf.GradientTape() as tape:
        tape.watch([x, table])
        if loss:
            sums = value = loss(target, tf.matmul(x, table, transpose_b=True))
        else:
            sums = loss_sums(tf.cast(x, dtype), table, target, epsilon)
            value = sums.loss
    return sums, tape.gradient(value, [x, table])


def set_block(monkeypatch, logits, multiple=1):
    tokens = max(1, logits // VOCAB), multiple
    monkeypatch.setattr(blocks, "tokens_at_once", lambda vocab_size: tokens)


def assert_like_the_slow_one(batch, epsilon, compute=sums_and_gradients, tolerance=1e-5):
    vectors, table, target = batch
    sums, gradients = compute(vectors, table, target, epsilon)
    expected_sums, expected_gradients = slow_loss(vectors, table, target, epsilon)
    assert all(value.dtype == tf.float32 and value.shape == () for value in sums)
    np.testing.assert_allclose(sums, expected_sums, rtol=tolerance, atol=tolerance)
    for ours, expected in zip(gradients, expected_gradients, strict=True):
        scale = max(np.abs(expected).max(), 0.1)
        np.testing.assert_allclose(ours, expected, atol=tolerance * scale)


# 15 tokens: one at a time, three (a whole number of blocks), four (not one), all.
@pytest.mark.parametrize("logits", [1, 3 * VOCAB, 4 * VOCAB + 1, 10**6])
@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_sums_and_gradients_are_the_formulas(monkeypatch, logits, has_gpu, multiple, epsilon):
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)
    set_block(monkeypatch, logits, multiple)
    assert_like_the_slow_one(random_batch(), epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_plain_formula_is_the_formula(monkeypatch, epsilon):
    """What computes where T2T_REPRO_PLAIN=1."""
    monkeypatch.setattr(kernels, "PLAIN", True)
    assert_like_the_slow_one(random_batch(), epsilon)
    in_bfloat16 = functools.partial(sums_and_gradients, dtype=tf.bfloat16)
    assert_like_the_slow_one(random_batch(), epsilon, in_bfloat16, tolerance=0.02)


def test_xla_computes_the_same(monkeypatch):
    set_block(monkeypatch, 4 * VOCAB)
    compute = tf.function(sums_and_gradients, jit_compile=True)
    assert_like_the_slow_one(random_batch(), 0.1, compute)


def test_many_tokens_add_up_in_float32_though_activations_are_bfloat16(monkeypatch):
    """A sum of 2,000 equal terms would stand still at 256 of them in bfloat16."""
    set_block(monkeypatch, 500 * VOCAB)
    vectors = np.ones((1, 2000, D_MODEL), np.float32)
    target = np.full((1, 2000), 3, np.int32)
    table = np.zeros((VOCAB, D_MODEL), np.float32)
    sums, (_, d_table) = sums_and_gradients(vectors, table, target, 0.0, tf.bfloat16)
    assert sums.tokens == 2000
    assert float(sums.nll) == pytest.approx(2000 * math.log(VOCAB), rel=1e-5)
    expected = np.full((VOCAB, D_MODEL), 2000 / VOCAB)
    expected[3] -= 2000
    np.testing.assert_allclose(d_table, expected, rtol=0.01)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_the_sums_are_t2ts(variant, batch):
    arrays = oracle_arrays(variant)
    vectors = arrays[f"{batch}/decoder_output"]
    table = arrays["transformer/symbol_modality_96_32/shared/weights_0"]
    target = tf.constant(arrays[f"{batch}/target_ids"])
    sums = loss_sums(tf.constant(vectors), tf.constant(table), target, 0.1)
    assert float(sums.loss) == pytest.approx(arrays[f"{batch}/loss_numerator"], rel=1e-4)
    assert float(sums.tokens) == arrays[f"{batch}/loss_denominator"]
    nll = arrays[f"{batch}/loss_numerator_no_smoothing"]
    assert float(sums.nll) == pytest.approx(nll, rel=1e-4)
    normalizing = arrays["label_smoothing_normalizing"]
    assert smoothing_entropy(96, 0.1) == pytest.approx(normalizing, rel=1e-4)


# As Keras's loss


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_keras_minimises_the_trainers_loss(epsilon):
    vectors, table, target = random_batch()
    sums, gradients = sums_and_gradients(vectors, table, target, epsilon)
    loss = LabelSmoothedCrossEntropy(epsilon)
    ours = sums_and_gradients(vectors, table, target.astype("int64"), epsilon, loss=loss)
    assert float(ours[0]) == pytest.approx(float(sums.loss / sums.tokens), rel=1e-5)
    for gradient, expected in zip(ours[1], gradients, strict=True):
        np.testing.assert_allclose(gradient, expected / sums.tokens, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "logits"), [((3,), (3, VOCAB)), ((2, 4), (2, 5, VOCAB)), ((2, 5, 1), (2, 5, VOCAB))]
)
def test_keras_loss_of_shapes_that_do_not_fit(labels, logits):
    message = re.escape(f"labels {labels}, logits {logits}: expected [batch, length] and")
    with pytest.raises(ValueError, match=message):
        LabelSmoothedCrossEntropy()(np.ones(labels), np.ones(logits))
