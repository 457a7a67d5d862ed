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


def test_constants_are_the_papers():
    optimizer = adam(learning_rate=1.0)
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (BETA_1, BETA_2, EPSILON)
    assert not optimizer.amsgrad
    assert optimizer.weight_decay is None
    with pytest.raises(RuntimeError, match="learning_rate"):
        adam()


@pytest.mark.parametrize("rate", ["x", None, InverseSquareRoot])
def test_what_is_no_learning_rate(rate):
    with pytest.raises(
        UserError, match=r"adam.learning_rate is .*, expected a number .* or a Lear"
    ):
        adam(learning_rate=rate)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_the_first_step_is_as_long_as_the_rate(size):
    """m / sqrt(v) is the sign of the gradient, whatever its size; ε is negligible."""
    gradient = np.array([size, -size, 0.0])
    moved = keras_adam(np.zeros(3), lambda _: gradient, 0.01, 1)
    np.testing.assert_allclose(moved, [-0.01, 0.01, 0.0], rtol=1e-2 if size < 1e-3 else 1e-5)


def test_epsilon_is_added_before_the_bias_is_corrected():
    """ε hat: where gradients are as small as ε, the first step tells the two places apart."""
    gradient = np.array([1e-8])
    m, root_v = 0.1 * gradient, np.sqrt(0.02) * gradient
    expected = -0.01 * np.sqrt(0.02) / 0.1 * m / (root_v + EPSILON)
    moved = keras_adam(np.zeros(1), lambda _: gradient, 0.01, 1)
    np.testing.assert_allclose(moved, expected, rtol=1e-4)
    np.testing.assert_allclose(
        numpy_adam(np.zeros(1), lambda _: gradient, [0.01]), expected, rtol=1e-6
    )


def test_steps_on_a_quadratic_with_a_schedule():
    minimum, curvature = np.array([1.0, -2.0, 0.5]), np.array([1.0, 10.0, 0.1])

    def gradient_of(weight):
        return curvature * (weight - minimum)

    schedule = InverseSquareRoot(0.1, 4)
    rates = [0.1 * min(step / 4, (4 / step) ** 0.5) for step in range(1, 13)]
    expected = numpy_adam(np.zeros(3), gradient_of, rates)
    received = keras_adam(np.zeros(3), gradient_of, schedule, 12)
    np.testing.assert_allclose(received, expected, rtol=1e-4)
    assert (np.abs(received - minimum) < np.abs(minimum)).all()


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e15, 1e18])
def test_an_ordinary_norm_has_the_bits_of_tensorflow_s(size):
    generator = np.random.default_rng(0)
    gradients = [
        tf.constant(generator.normal(size=shape) * size, tf.float32) for shape in ((7, 5), (3,), ())
    ]
    expected = tf.linalg.global_norm(gradients).numpy()
    for norm in (global_norm(gradients), tf.function(global_norm)(gradients)):
        assert norm.numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [1e18, 1e20, 1e30, 1e37, -1e37])
def test_a_norm_does_not_overflow_where_it_is_a_float(size):
    """sqrt(n a²) = sqrt(n) a."""
    gradients = [tf.fill([20, 3], np.float32(size)), tf.fill([40], np.float32(size))]
    assert float(global_norm(gradients)) == pytest.approx(10 * abs(size), rel=1e-6)
    gradients.append(tf.constant([0.0, 1e-30, 1.0]))
    assert float(global_norm(gradients)) == pytest.approx(10 * abs(size), rel=1e-6)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_the_norm_of_what_is_not_finite_is_not(bad):
    for gradients in ([[1.0, bad]], [[1e30], [bad]], [[bad, bad], [np.inf]]):
        assert not np.isfinite(global_norm([tf.constant(g) for g in gradients]))
    # Nor is one that is beyond float32 itself.
    assert float(global_norm([tf.fill([100], np.float32(3e38))])) == np.inf
