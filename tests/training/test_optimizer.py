"""Learning rate and Adam are the paper's."""

import inspect
import json

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule
from t2t_repro.training.optimizer import SummedUpdate
from t2t_repro.training.settings import adam, inverse_square_root, transformer_schedule
from tests.oracle import oracle_folder

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


def equation_3(step, d_model, warmup_steps):
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def rates(schedule, paper_steps):
    """The rates of the paper's steps 1, 2, ...; Keras counts from 0."""
    return np.array([float(schedule(step - 1)) for step in paper_steps])


@pytest.mark.parametrize(("d_model", "warmup_steps"), [(512, 4000), (1024, 16_000), (8, 1)])
def test_rate_is_equation_3(d_model, warmup_steps):
    steps = [1, 2, warmup_steps // 2 or 1, warmup_steps, warmup_steps + 1, 100_000, 300_000]
    expected = [equation_3(step, d_model, warmup_steps) for step in steps]
    schedule = TransformerSchedule(d_model=d_model, warmup_steps=warmup_steps)
    np.testing.assert_allclose(rates(schedule, steps), expected, rtol=1e-5)


def test_rates_are_t2ts_one_step_later():
    table = json.loads((oracle_folder("v3").parent / "lr_schedule.json").read_text())
    schedule = TransformerSchedule(
        d_model=table["hidden_size"],
        warmup_steps=table["learning_rate_warmup_steps"],
        constant=table["learning_rate_constant"],
    )
    # T2T makes its first update, number 0, with rate 0.
    expected = {row["global_step"]: row["learning_rate"] for row in table["values"]}
    assert expected.pop(0) == 0.0
    np.testing.assert_allclose(rates(schedule, expected), list(expected.values()), rtol=1e-5)


@pytest.mark.parametrize(
    "schedule", [InverseSquareRoot(0.002, 30), TransformerSchedule(64, 30, constant=2.0)]
)
def test_serialisation(schedule):
    described = keras.saving.serialize_keras_object(schedule)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(described)))
    assert type(again) is type(schedule)
    assert again.get_config() == schedule.get_config()
    assert rates(again, [7, 70]).tolist() == rates(schedule, [7, 70]).tolist()


@pytest.mark.parametrize(
    ("configured", "schedule"),
    [(transformer_schedule, TransformerSchedule), (inverse_square_root, InverseSquareRoot)],
)
def test_schedules_have_the_defaults_that_gin_files_have(configured, schedule):
    ours, keras_s = (inspect.signature(one).parameters for one in (configured, schedule))
    assert [one.default for one in ours.values()] == [one.default for one in keras_s.values()]
    assert [*ours] == [*keras_s]


def test_an_optimizer_with_an_update_of_its_own_is_refused():
    """Its sums would be taken on every replica, or it would not update as often as it is called."""
    new = keras.optimizers.SGD
    own = [new(gradient_accumulation_steps=4), new(loss_scale_factor=9.0), new(use_ema=True)]
    for refused in (*own, keras.optimizers.LossScaleOptimizer(new())):
        with pytest.raises(UserError, match=f"{type(refused).__name__} has .*update_step"):
            SummedUpdate(refused, [], None)  # type: ignore[arg-type]
