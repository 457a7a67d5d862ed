import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels import relu as kernel

X = np.array([[-2.0, -1e-30, -0.0, 0.0, 1e-30, 3.0]], np.float32)
UPSTREAM = np.array([[5.0, 6.0, 7.0, 8.0, 9.0, 10.0]], np.float32)


@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("jit_compile", [None, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_value_and_gradient_are_those_of_tensorflow(dtype, jit_compile, has_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)

    def value_and_gradient(function):
        x = tf.cast(X, dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x, tf.cast(UPSTREAM, dtype))

    found = tf.function(lambda: value_and_gradient(kernel.relu), jit_compile=jit_compile)()
    for ours, theirs in zip(found, value_and_gradient(tf.nn.relu), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(found[1], np.where(X > 0, tf.cast(UPSTREAM, dtype), 0))


def test_the_gradient_keeps_what_comes_out_alone(monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = kernel.relu(x)
        return tape.gradient(y, x)

    operations = gradient.get_concrete_function(tf.TensorSpec([2, 3])).graph.get_operations()
    kinds = {operation.type for operation in operations}
    assert "Relu" in kinds
    assert "ReluGrad" not in kinds
