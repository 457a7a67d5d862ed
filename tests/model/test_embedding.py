import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.dense import product
from t2t_repro.model.embedding import SharedEmbedding
from t2t_repro.model.kernels.gradients import look_up
from tests.layer_test import run_layer_test

VOCAB, D_MODEL = 7, 4
IDS = np.array([[3, 5, 1, 0], [3, 3, 1, 0]], np.int32)


@pytest.fixture
def embedding():
    layer = SharedEmbedding(VOCAB, D_MODEL)
    layer.build((None, None))
    return layer


def test_ids_embed_as_scaled_rows_and_padding_as_zeros(embedding):
    expected = embedding.table.numpy()[IDS] * np.sqrt(D_MODEL) * (IDS != 0)[..., None]
    np.testing.assert_allclose(embedding(IDS), expected, atol=1e-6)
    assert np.abs(embedding.table.numpy()[0]).min() > 0


def test_logits_are_products_with_every_row_that_of_padding_too(embedding):
    x = np.random.default_rng(0).normal(size=(2, 3, D_MODEL)).astype(np.float32)
    logits = product(tf.constant(x), embedding.transposed_table())
    np.testing.assert_allclose(logits, x @ embedding.table.numpy().T, atol=1e-6)
    assert np.abs(logits[..., 0]).min() > 0


def test_gradient_of_look_up_is_dense_and_tensorflows():
    rng = np.random.default_rng(0)
    table = tf.constant(rng.normal(size=(VOCAB, D_MODEL)), tf.float32)
    upstream = tf.constant(rng.normal(size=(*IDS.shape, D_MODEL)), tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(table)
        ours, theirs = look_up(table, IDS), tf.gather(table, IDS)
    np.testing.assert_array_equal(ours, theirs)
    dense = tape.gradient(ours, table, upstream)
    assert isinstance(dense, tf.Tensor)
    micro_batches = tape.gradient(theirs, table, upstream)
    np.testing.assert_allclose(dense, tf.convert_to_tensor(micro_batches), atol=1e-6)


def test_padding_learns_from_the_softmax_alone(embedding):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(embedding(IDS))
    gradient = tape.gradient(loss, embedding.table.value).numpy()
    counts = np.bincount(IDS.ravel(), minlength=VOCAB) * (np.arange(VOCAB) != 0)
    expected = np.outer(counts, np.full(D_MODEL, np.sqrt(D_MODEL)))
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_gradient_of_a_frequent_id_does_not_stand_still_in_bfloat16():
    layer = SharedEmbedding(VOCAB, D_MODEL, dtype="mixed_bfloat16")
    layer.build((None, None))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(layer(tf.fill((10, 100), 3)), tf.float32))
    gradient = tape.gradient(loss, layer.table.value).numpy()
    np.testing.assert_allclose(gradient[3], 1000 * np.sqrt(D_MODEL))


def test_table_starts_as_t2ts_does():
    layer = SharedEmbedding(1000, 256)
    layer.build((None, None))
    table = layer.table.numpy()
    assert table.std() == pytest.approx(256**-0.5, rel=0.01)
    assert abs(table.mean()) < 1e-3
    # Normal, not uniform and not truncated: 0.27 % of a normal are beyond three deviations.
    assert 0.002 < (np.abs(table) > 3 * 256**-0.5).mean() < 0.0035


def test_shared_embedding_as_a_layer():
    config = {"vocab_size": VOCAB, "d_model": D_MODEL}
    run_layer_test(SharedEmbedding, config, (IDS,), (2, 4, D_MODEL), VOCAB * D_MODEL)
