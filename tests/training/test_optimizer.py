"""Adam is the paper's."""

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.learning_rate import InverseSquareRoot
from t2t_repro.training.optimizer import adam

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


@pytest.mark.parametrize("rate", ["x", None])
def test_what_is_not_a_learning_rate(rate):
    with pytest.raises(UserError, match=r"adam.learning_rate is "):
        adam(learning_rate=rate)
