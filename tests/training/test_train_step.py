"""One update is the same whatever the devices: replicas, micro-batches, XLA."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.errors import UserError
from t2t_repro.model.loss import CrossEntropy
from tests.training import tiny
from tests.training.tiny import assert_close, assert_same, copies, global_batches, tiny_step


def train(step, steps=9):
    """The results of the updates and the weights after them."""
    batches = global_batches(steps, step.micro_batches)
    results = [step(n, *map(tf.constant, batch)) for n, batch in enumerate(batches)]
    return np.array(results), copies(step.model)


def assert_nothing_is_updated_from_a_bad_batch_on(step):
    """The host sees it an update later: until then the weights must stay what they were."""
    batches = list(global_batches(2, 2))
    updates = step.optimizer.iterations.numpy()
    weight = step.model.trainable_variables[5]
    good = weight.numpy()
    weight.assign(np.full_like(good, np.inf))
    result = step(updates, *batches[0])
    assert not np.isfinite(result.gradient_norm.numpy())
    weight.assign(good)
    before = copies(step.model)
    assert np.isfinite(step(updates + 1, *batches[1]).loss.numpy())
    assert_same(copies(step.model), before)
    assert step.optimizer.iterations.numpy() == updates


class Huge(CrossEntropy):
    """Its gradients fit float32, but not their squares."""

    def __call__(self, vectors, table, labels):
        sums = super().__call__(vectors, table, labels)
        return sums._replace(loss=sums.loss * 1e22)


def test_a_gradient_whose_square_overflows_is_not_used():
    """Adam's v would be infinite, and the weight never change again."""
    step = tiny_step(loss=Huge())
    before = copies(step.model)
    result = step(0, *next(global_batches(1, 1)))
    assert np.isinf(result.gradient_norm)
    assert float(result.usable) == 0.0
    assert_same(copies(step.model), before)


# Devices


@pytest.fixture(scope="module")
def two_micro_batches():
    """Updates on one device with dropout, no XLA."""
    return train(tiny_step(micro_batches=2, dropout=0.3), 6)


def test_two_replicas_are_one_device_and_none_is_updated_from_a_bad_batch_on(two_micro_batches):
    """Above all where one replica has fewer tokens, or none: the mean is over all tokens."""
    step = tiny_step(replicas=2, dropout=0.3)
    assert (step.micro_batches, step.micro_batches_per_replica) == (2, 1)
    before = copies(step.model)
    step.compile([BatchShape(3, (5, 6), (16, 19)), BatchShape(2, (3, 4), (8, 8))])
    assert_same(copies(step.model), before)
    assert step.optimizer.iterations.numpy() == 0
    results, weights = train(step, 6)
    np.testing.assert_allclose(results, two_micro_batches[0], rtol=1e-4)
    assert_close(weights, two_micro_batches[1], atol=1e-5)
    for replica in range(2):
        local = [
            step.strategy.experimental_local_results(weight.value)[replica].numpy()
            for weight in step.model.trainable_variables
        ]
        assert_same(local, weights)
    # All shapes share the trace that `compile` made: none is traced in the middle of a run.
    assert step.micro_batch_gradients.function.experimental_get_tracing_count() == 1
    assert_nothing_is_updated_from_a_bad_batch_on(step)


def test_the_graph_is_eager(two_micro_batches):
    tf.config.run_functions_eagerly(True)
    try:
        results, _ = train(tiny_step(micro_batches=2, dropout=0.3), 2)
    finally:
        tf.config.run_functions_eagerly(False)
    np.testing.assert_allclose(two_micro_batches[0][:2], results, rtol=1e-4)


def test_four_micro_batches_on_one_device_are_one():
    lengths, rng = [6, 5, 1, 0, 4, 6, 0, 0], np.random.default_rng(0)
    four, one = tiny_step(micro_batches=4), tiny_step()
    for number in range(3):
        batch = [tiny.random_ids(rng, 4, np.minimum(lengths, top), 6) for top in (4, 6)]
        ours = four(number, *batch)
        theirs = one(number, *[ids.reshape(1, 8, 6) for ids in batch])
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert_close(copies(four.model), copies(one.model), atol=1e-5)


def test_three_micro_batches_on_two_replicas_become_four():
    step = tiny_step(replicas=2, micro_batches=3)
    assert (step.micro_batches, step.micro_batches_per_replica) == (4, 2)


def test_a_shape_that_does_not_fit_is_named(monkeypatch):
    def exhausted(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    step = tiny_step()
    step.compile([BatchShape(2, (3, 4), (6, 8))])
    monkeypatch.setattr(step, "_try_all", exhausted)
    with pytest.raises(UserError, match=r"2 x 3, 4 .*TrainStep\.micro_batches"):
        step.compile([BatchShape(2, (3, 4), (6, 8))])


# The report, and clipping


def of_the_whole_batch(model, batch, cross_entropy):
    """The sums of all micro-batches together, and the gradients of their mean loss."""
    source, target = (tf.constant(ids.reshape(6, -1)) for ids in batch)
    with tf.GradientTape() as tape:
        sums = model.loss_sums(source, target, cross_entropy)
        loss = sums.loss / sums.tokens
    weights = [weight.value for weight in model.trainable_variables]
    return sums, [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]


def test_the_report_is_global_and_clipping_acts_on_the_sum():
    settings = {"micro_batches": 2, "loss": CrossEntropy(0.2)}
    batch = list(global_batches(2, 2))[1]
    sums, gradients = of_the_whole_batch(tiny.tiny_model(), batch, CrossEntropy(0.2))
    norm = float(tf.linalg.global_norm(gradients))

    clipping = functools.partial(keras.optimizers.SGD, 1.0, global_clipnorm=norm / 3)
    step = tiny_step(2, optimizer=clipping, **settings)
    before = copies(step.model)
    result = step(0, *batch)
    assert float(result.loss) == pytest.approx(float(sums.loss / sums.tokens), rel=1e-5)
    assert float(result.nll) == pytest.approx(float(sums.nll / sums.tokens), rel=1e-5)
    assert float(result.gradient_norm) == pytest.approx(norm, rel=1e-4)
    assert float(result.usable) == 1.0
    # Plain descent with rate 1 goes by the gradient itself.
    moved = [old - new for old, new in zip(before, copies(step.model), strict=True)]
    assert_close(moved, [gradient / 3 for gradient in gradients], atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(keras.optimizers.AdamW, 0.01, weight_decay=0.1, clipnorm=0.05),
        pytest.param(functools.partial(keras.optimizers.Adafactor, 0.01), marks=pytest.mark.slow),
    ],
)
def test_any_optimizer_is_keras_s_own_on_the_whole_batch(make):
    """Where Keras clips, the sum is clipped."""
    model, step = tiny.tiny_model(), tiny_step(2, micro_batches=2, optimizer=make)
    optimizer = make()
    optimizer.build(model.trainable_variables)
    for number, batch in enumerate(global_batches(3, 2)):
        _, gradients = of_the_whole_batch(model, batch, CrossEntropy())
        optimizer.apply(gradients, model.trainable_variables)
        step(number, *batch)
    assert_close(copies(step.model), copies(model), atol=1e-4)


# Dropout, precision


def test_dropout_is_a_function_of_seed_step_and_micro_batch(two_micro_batches):
    sgd = functools.partial(keras.optimizers.SGD, 0.0)
    step = tiny_step(dropout=0.3, micro_batches=2, optimizer=sgd, seed=8)
    batch = next(global_batches(1, 2))

    def loss(step, number, batch=batch):
        return float(step(number, *batch).loss)

    first = loss(step, 4)
    others = [loss(step, 5), loss(step, 2**32 + 4)]
    # If both micro-batches had the same draws, their order would make no difference.
    others.append(loss(step, 4, [ids[::-1] for ids in batch]))
    assert min(abs(loss - first) for loss in others) > 1e-4
    assert loss(step, 4) == first
    # The other model has another seed.
    assert abs(loss(step, 0) - two_micro_batches[0][0, 0]) > 1e-4


def test_mixed_bfloat16_learns():
    step = tiny_step(dtype="mixed_bfloat16")
    batch = next(global_batches(1, 1))
    sums = tiny.tiny_model().loss_sums(*[ids[0] for ids in batch], CrossEntropy())
    losses = [float(step(number, *batch).loss) for number in range(40)]
    assert losses[-1] < losses[0] - 0.3
    assert {str(weight.dtype) for weight in step.model.trainable_variables} == {"float32"}
    assert losses[0] == pytest.approx(float(sums.loss / sums.tokens), rel=0.02)
