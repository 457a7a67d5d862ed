import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.attention import MultiHeadAttention, projected_memory
from t2t_repro.model.kernels import gpu
from tests import reference
from tests.layer_test import output_and_gradients, randomize, run_layer_test

RNG = np.random.default_rng(3)
BATCH, QUERY_LENGTH, KEY_LENGTH, D_MODEL = 3, 4, 5, 6
SHAPE = (None, None, D_MODEL)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("num_heads", "d_k", "d_v"), [(1, 6, 6), (2, 3, 3), (3, 2, 5), (4, 7, 1)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("use_bias", [False, True])
def test_multi_head_attention_against_a_loop_over_heads(num_heads, d_k, d_v, masked, use_bias):
    layer = randomize(MultiHeadAttention(num_heads, d_k, d_v, use_bias=use_bias), shape=SHAPE)
    query, memory = normal(BATCH, QUERY_LENGTH, D_MODEL), normal(BATCH, KEY_LENGTH, D_MODEL)
    allowed = np.ones((BATCH, QUERY_LENGTH, KEY_LENGTH), bool)
    if masked:
        allowed = RNG.random(allowed.shape) < 0.6
        allowed[:, :, 0] = True
    output = layer(query, memory, attention_mask=tf.constant(allowed) if masked else None)
    for b in range(BATCH):
        expected = reference.multi_head_attention(layer, query[b], memory[b], allowed[b])
        np.testing.assert_allclose(output[b], expected, atol=1e-5)


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("has_memory", [False, True])
def test_on_a_gpu_one_product_gives_what_several_do(has_memory, dtype, use_bias, monkeypatch):
    layer = randomize(MultiHeadAttention(2, 3, 5, use_bias=use_bias, dtype=dtype), shape=SHAPE)
    x = tf.cast(normal(2, 4, D_MODEL), layer.compute_dtype)
    inputs = [x, tf.cast(normal(2, 3, D_MODEL), x.dtype)] if has_memory else [x]
    expected = output_and_gradients(layer, *inputs)
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    # Of the largest: the gradient by a key's bias is nothing but rounding.
    scale = max(np.abs(one.numpy().astype(np.float32)).max() for one in expected)
    tolerance = (1e-5 if dtype == "float32" else 0.02) * scale
    for found, one in zip(output_and_gradients(layer, *inputs), expected, strict=True):
        assert found.dtype == one.dtype
        np.testing.assert_allclose(
            tf.cast(found, tf.float32), tf.cast(one, tf.float32), atol=tolerance
        )


@pytest.mark.parametrize("use_bias", [False, True])
def test_on_a_gpu_one_product_projects_the_memory_of_all_layers(use_bias, monkeypatch):
    layers = [
        randomize(MultiHeadAttention(heads, 3, 5, use_bias=use_bias), seed, shape=SHAPE)
        for seed, heads in enumerate((2, 4, 2))
    ]
    memory = tf.constant(normal(2, 3, D_MODEL))
    expected = [layer.project_memory(memory) for layer in layers]
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    for found, one in zip(projected_memory(layers, memory), expected, strict=True):
        np.testing.assert_allclose(found.keys, one.keys, atol=1e-5)
        np.testing.assert_allclose(found.values, one.values, atol=1e-5)


def test_dropout_acts_on_the_attention_weights():
    """Values of ones: without dropout every context is 1, with it the sum of what is left."""
    layer = MultiHeadAttention(1, 2, 2, dropout=0.5)
    layer.build((None, None, 2))
    for projection in (layer.value_projection, layer.output_projection):
        projection.kernel.assign(np.eye(2))
    ones = np.ones((1, 64, 2), np.float32)
    np.testing.assert_allclose(layer(ones, training=False), ones, atol=1e-6)
    sums = layer(ones, training=True).numpy() * 64 / 2
    np.testing.assert_allclose(sums, sums.round(), atol=1e-3)
    assert 0.8 < sums.mean() / 32 < 1.2
    assert len(np.unique(sums.round())) > 5


@pytest.mark.parametrize("d_v", [3, 4])
def test_multi_head_attention_as_a_layer(d_v):
    mask = np.array([[[True, True, False, False, True]], [[True] * 5]])
    run_layer_test(
        MultiHeadAttention,
        {"num_heads": 2, "d_k": 3, "d_v": d_v},
        (normal(2, 4, D_MODEL), normal(2, 5, D_MODEL)),
        output_shape=(2, 4, D_MODEL),
        num_weights=2 * (D_MODEL * 2 * 3) + 2 * (D_MODEL * 2 * d_v),
        masks={"attention_mask": mask},
    )
