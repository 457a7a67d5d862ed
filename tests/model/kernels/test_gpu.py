"""Programs for GPUs only, and Adam there, tried on the CPU."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels.adam import FusedAdam

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

    found = tf.function(lambda: value_and_gradient(gpu.relu), jit_compile=jit_compile)()
    for ours, theirs in zip(found, value_and_gradient(tf.nn.relu), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(found[1], np.where(X > 0, tf.cast(UPSTREAM, dtype), 0))


PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]


# The known answers that come with Random123, the authors' own program.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (*PI, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ],
)
def test_the_known_answers(counter, key, expected):
    counter, key = (tf.unstack(tf.constant(words, tf.uint32)) for words in (counter, key))
    np.testing.assert_array_equal(tf.stack(gpu.philox(counter, key)), np.array(expected, np.uint32))


def weights_after(optimizer_class, steps, rate):
    rng = np.random.default_rng(0)
    variables = [
        keras.Variable(rng.normal(size=s), name=f"w{len(s)}", dtype="float32")
        for s in [(3, 4), (5,)]
    ]
    optimizer = optimizer_class(rate, beta_2=0.98, epsilon=1e-9)
    optimizer.build(variables)
    for _ in range(steps):
        gradients = [keras.ops.cast(rng.normal(size=v.shape), "float32") for v in variables]
        optimizer.apply(gradients)
    return [v.numpy() for v in variables], [v.path for v in optimizer.variables]


@pytest.mark.parametrize("rate", [0.01, keras.optimizers.schedules.InverseTimeDecay(0.1, 2, 0.5)])
@pytest.mark.parametrize("has_gpu", [False, True])
def test_its_steps_are_those_of_kerass_adam(rate, has_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)
    (ours, paths), (theirs, others) = (
        weights_after(kind, 20, rate) for kind in (FusedAdam, keras.optimizers.Adam)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    # A checkpoint of the one is a checkpoint of the other.
    assert [path.split("/")[-1] for path in paths] == [path.split("/")[-1] for path in others]


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_barrier_stands_where_xla_compiles_for_a_gpu(has_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        assert gpu.optimization_barrier(x)[0] is x
        with gpu.compiled(True):
            assert (gpu.optimization_barrier(x)[0] is x) != has_gpu
