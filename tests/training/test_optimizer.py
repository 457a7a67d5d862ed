"""Adam is the paper's, and the norm of large gradients does not overflow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.training.learning_rate import InverseSquareRoot
from t2t_repro.training.optimizer import adam, global_norm

BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-9


def numpy_adam(weight, gradient_of, rates):
    """Kingma and Ba's Adam, in the form at the end of their section 2: with ε hat."""
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    for t, rate in enumerate(rates, 1):
        gradient = gradient_of(weight)
        m = BETA_1 * m + (1 - BETA_1) * gradient
        v = BETA_2 * v + (1 - BETA_2) * gradient**2
        rate = rate * np.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
        weight = weight - rate * m / (np.sqrt(v) + EPSILON)
    return weight


def keras_adam(weight, gradient_of, learning_rate, steps):
    variable = keras.Variable(weight)
    optimizer = adam(learning_rate=learning_rate)
    optimizer.build([variable])
    for _ in range(steps):
        optimizer.apply([np.float32(gradient_of(variable.numpy()))])
    return variable.numpy()


def test_epsilon_is_added_before_the_bias_is_corrected():
    """ε hat: where gradients are as small as ε, the first step tells the two places apart."""
    gradient = np.array([1e-8])
    expected = numpy_adam(np.zeros(1), lambda _: gradient, [0.01])
    received = keras_adam(np.zeros(1), lambda _: gradient, 0.01, 1)
    np.testing.assert_allclose(received, expected, rtol=1e-4)


def test_steps_on_a_quadratic_with_a_schedule():
    minimum, curvature = np.array([1.0, -2.0, 0.5]), np.array([1.0, 10.0, 0.1])

    def gradient_of(weight):
        return curvature * (weight - minimum)

    rates = [0.1 * min(step / 4, (4 / step) ** 0.5) for step in range(1, 13)]
    expected = numpy_adam(np.zeros(3), gradient_of, rates)
    received = keras_adam(np.zeros(3), gradient_of, InverseSquareRoot(0.1, 4), 12)
    np.testing.assert_allclose(received, expected, rtol=1e-4)
    assert (np.abs(received - minimum) < np.abs(minimum)).all()


@pytest.mark.parametrize("rate", ["x", None, InverseSquareRoot])
def test_what_is_not_a_learning_rate(rate):
    with pytest.raises(UserError, match=r"adam.learning_rate is "):
        adam(learning_rate=rate)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e18])
def test_an_ordinary_norm_has_the_bits_of_tensorflow_s(size):
    generator = np.random.default_rng(0)
    gradients = [
        tf.constant(generator.normal(size=shape) * size, tf.float32) for shape in ((7, 5), (3,), ())
    ]
    expected = tf.linalg.global_norm(gradients).numpy()
    for norm in (global_norm(gradients), tf.function(global_norm)(gradients)):
        assert norm.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [1e20, -1e37])
def test_a_norm_that_fits_float32_does_not_overflow(size):
    """sqrt(n a²) = sqrt(n) a."""
    gradients = [tf.fill([20, 3], np.float32(size)), tf.fill([40], np.float32(size))]
    gradients.append(tf.constant([0.0, 1e-30, 1.0]))
    assert float(global_norm(gradients)) == pytest.approx(10 * abs(size), rel=1e-6)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_the_norm_is_not_finite_where_a_gradient_is_not(bad):
    for gradients in ([[1.0, bad]], [[1e30], [bad]], [[bad, bad], [np.inf]]):
        assert not np.isfinite(global_norm([tf.constant(g) for g in gradients]))
