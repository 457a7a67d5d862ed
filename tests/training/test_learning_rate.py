import json

import keras
import numpy as np
import pytest

from t2t_repro.training.learning_rate import InverseSquareRoot, TransformerSchedule
from tests.oracle import oracle_folder


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


@pytest.mark.parametrize("schedule", [InverseSquareRoot(0.002, 30), TransformerSchedule(512, 30)])
def test_peak_is_at_the_end_of_the_warm_up(schedule):
    received = rates(schedule, range(1, 100))
    assert received.argmax() + 1 == 30
    assert received.max() == pytest.approx(schedule.peak, rel=1e-6)
    np.testing.assert_allclose(np.diff(received[:30]), schedule.peak / 30, rtol=1e-3)
    assert (np.diff(received[30:]) < 0).all()
    assert received[0] > 0


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


def test_an_optimizer_starts_at_step_1():
    schedule = TransformerSchedule(64, 10)
    optimizer = keras.optimizers.SGD(schedule)
    weight = keras.Variable(0.0)
    optimizer.build([weight])
    for _ in range(3):
        optimizer.apply([np.float32(1.0)])
    assert float(weight) == pytest.approx(-rates(schedule, [1, 2, 3]).sum(), rel=1e-5)
