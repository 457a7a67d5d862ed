"""One update is the same whatever the devices: replicas, slices, XLA."""

import functools

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.errors import UserError
from t2t_repro.model.kernels import gpu
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.training.devices import use_xla
from t2t_repro.training.optimizer import adam
from tests.training.tiny import assert_close, assert_same, copies, random_ids, tiny_model, tiny_step

# Lengths of the target sentences of a global batch of six, by slices of three: alike; the second
# slice much shorter; the second slice of padding alone.
LENGTHS = ([6, 5, 6, 4, 6, 6], [6, 6, 5, 1, 2, 0], [6, 3, 6, 0, 0, 0])


def global_batches(count, micro_batches, seed=0):
    """The same sentences in the same order, however they are cut into slices."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        target_lengths = LENGTHS[number % len(LENGTHS)]
        source_lengths = [min(length, 4) for length in target_lengths]
        yield (
            random_ids(rng, micro_batches, source_lengths, 5),
            random_ids(rng, micro_batches, target_lengths, 6),
        )


def train(step, steps=20):
    """The results of the updates and the weights after them."""
    batches = global_batches(steps, step.micro_batches)
    results = [step(n, *map(tf.constant, batch)) for n, batch in enumerate(batches)]
    return np.array(results), copies(step.model)


@pytest.fixture(scope="module")
def one_device():
    """20 updates on one device, one slice, no XLA, no dropout."""
    return train(tiny_step())


# A loss that is not finite


@pytest.mark.parametrize("replicas", [1, 2])
def test_nothing_is_updated_from_a_bad_batch_on(replicas):
    """The host sees it an update later: until then the weights must stay what they were."""
    step = tiny_step(replicas=replicas, micro_batches=2, dropout=0.1)
    batches = list(global_batches(3, 2))
    step(0, *batches[0])
    weight = step.model.trainable_variables[5]
    good = weight.numpy()
    weight.assign(np.full_like(good, np.inf))
    result = step(1, *batches[1])
    assert not np.isfinite(result.gradient_norm.numpy())
    weight.assign(good)
    before = copies(step.model)
    assert np.isfinite(step(2, *batches[2]).loss.numpy())
    assert_same(copies(step.model), before)
    assert step.optimizer.iterations.numpy() == 1
    moments = [keras.ops.convert_to_numpy(v.value) for v in step.optimizer.variables]
    assert all(np.isfinite(moment).all() for moment in moments)


class Huge(CrossEntropy):
    """Gradients whose squares are no float32, though they are."""

    def __call__(self, vectors, table, labels):
        sums = super().__call__(vectors, table, labels)
        return sums._replace(loss=sums.loss * 1e22)


def test_a_gradient_whose_square_is_no_float_is_not_used():
    """Adam's v would be infinite, and the weight stand still for ever."""
    step, plain = tiny_step(loss=Huge()), tiny_step()
    first, second = global_batches(2, 1)
    before = copies(step.model)
    result, expected = step(0, *first), plain(0, *first)
    norm = 1e22 * float(expected.gradient_norm)
    assert float(result.gradient_norm) == pytest.approx(norm, rel=1e-4)
    assert (float(result.usable), float(expected.usable)) == (0.0, 1.0)
    step(1, *second)
    assert_same(copies(step.model), before)


@pytest.mark.parametrize(("option", "replicas"), [("global_clipnorm", 2), ("clipnorm", 1)])
def test_clipped_it_is_what_any_gradient_is(option, replicas):
    """In its direction, as long as it may be, whatever its length was."""
    make = functools.partial(keras.optimizers.SGD, 1.0, **{option: 1e-3})
    steps = [
        tiny_step(replicas, micro_batches=2, optimizer=make, loss=loss) for loss in (Huge(), None)
    ]
    for number, batch in enumerate(global_batches(3, 2)):
        results = [step(number, *batch) for step in steps]
        assert [float(result.usable) for result in results] == [1.0, 1.0]
        assert float(results[0].gradient_norm) > 1e21
    assert_close(copies(steps[0].model), copies(steps[1].model), atol=1e-6)


# Devices


def test_two_replicas_with_xla_are_one_device(one_device):
    """Above all where one replica has fewer tokens, or none: the mean is over all tokens."""
    step = tiny_step(replicas=2, jit_compile=True)
    assert (step.micro_batches, step.slices_per_replica) == (2, 1)
    # Rehearsing all shapes beforehand changes nothing.
    before = copies(step.model)
    assert step.compile([BatchShape(6, 5, 6, 30, 36)]) == 1
    assert_same(copies(step.model), before)
    assert step.optimizer.iterations.numpy() == 0
    results, weights = train(step)
    np.testing.assert_allclose(results, one_device[0], rtol=1e-4)
    assert_close(weights, one_device[1], atol=1e-5)
    assert one_device[0][-3:, 0].mean() < one_device[0][:3, 0].mean() - 0.1
    for replica in range(2):
        local = [
            step.strategy.experimental_local_results(weight.value)[replica].numpy()
            for weight in step.model.trainable_variables
        ]
        assert_same(local, weights)


def test_four_slices_on_one_device_are_one_slice():
    lengths, rng = [6, 5, 1, 0, 4, 6, 0, 0], np.random.default_rng(0)
    four, one = tiny_step(micro_batches=4), tiny_step()
    for number in range(3):
        batch = [random_ids(rng, 4, np.minimum(lengths, top), 6) for top in (4, 6)]
        ours = four(number, *batch)
        theirs = one(number, *[ids.reshape(1, 8, 6) for ids in batch])
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert_close(copies(four.model), copies(one.model), atol=1e-5)


def test_two_replicas_draw_the_dropout_of_two_slices():
    two_replicas = train(tiny_step(replicas=2, dropout=0.3), 6)
    two_slices = train(tiny_step(micro_batches=2, dropout=0.3), 6)
    np.testing.assert_allclose(two_replicas[0], two_slices[0], rtol=1e-5)
    assert_close(two_replicas[1], two_slices[1], atol=1e-6)


def test_three_slices_on_two_replicas_become_four():
    step = tiny_step(replicas=2, micro_batches=3)
    assert (step.micro_batches, step.slices_per_replica) == (4, 2)


# XLA


def test_xla_is_the_graph_is_eager(one_device, with_xla):
    steps = 3
    tf.config.run_functions_eagerly(True)
    try:
        eager = train(tiny_step(), steps)
    finally:
        tf.config.run_functions_eagerly(False)
    xla = train(with_xla, steps)
    np.testing.assert_allclose(xla[0], eager[0], rtol=1e-4)
    np.testing.assert_allclose(one_device[0][:steps], eager[0], rtol=1e-4)
    assert_close(xla[1], eager[1], atol=1e-5)


@pytest.fixture
def with_xla():
    """A step with two shapes, the one that the batches have compiled first."""
    step = tiny_step(jit_compile=True)
    assert step.compile([BatchShape(6, 5, 6, 30, 36), BatchShape(1, 3, 4, 8, 8)]) == 2
    yield step
    # All shapes go through one trace, the one that `compile` compiled: otherwise XLA would
    # compile the first shape again in the middle of the training.
    rng = np.random.default_rng(0)
    assert np.isfinite(step(9, random_ids(rng, 1, [3], 3), random_ids(rng, 1, [3], 4))).all()
    assert step.slice_gradients.of_slice.experimental_get_tracing_count() == 1


def test_xla_says_how_much_memory_a_program_needs():
    step = tiny_step(jit_compile=True)
    small, large = (BatchShape(rows, 8, 8, 8 * rows, 8 * rows) for rows in (4, 64))
    needed, more = map(step.slice_gradients.peak_bytes, (small, large))
    # Weights and gradients; and for every slot and layer some vectors.
    assert needed > 2 * 4 * step.model.count_params()
    assert more - needed > 4 * 16 * 2 * 8 * 60 * 10


@pytest.mark.parametrize("has_gpu", [False, True])
def test_xla_draws_the_same_dropout(has_gpu, monkeypatch):
    """With the program for a GPU too, where every element draws for itself."""
    batch = next(global_batches(1, 1))
    expected = tiny_step(dropout=0.3)(3, *batch)
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)
    step = tiny_step(dropout=0.3, jit_compile=True)
    np.testing.assert_allclose(step(3, *batch), expected, rtol=1e-4)
    traced = step.slice_gradients.of_slice.get_concrete_function().graph.get_operations()
    draws = [op for op in traced if op.type == "StatelessRandomUniformFullIntV2"]
    assert bool(draws) is not has_gpu


def test_without_xla_nothing_is_compiled():
    assert tiny_step().compile([BatchShape(2, 3, 4, 7, 9)]) == 0


def test_xla_is_for_gpus_unless_asked_for():
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    assert use_xla() == has_gpu
    assert use_xla(True)
    assert not use_xla(False)


# What is reported, and clipping


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_is_reported_is_global_and_clipping_acts_on_the_sum(replicas):
    options = {"micro_batches": 2, "loss": CrossEntropy(0.2)}
    batch = list(global_batches(2, 2))[1]
    source, target = (tf.constant(ids.reshape(6, -1)) for ids in batch)
    model = tiny_model()
    with tf.GradientTape() as tape:
        sums = model.loss_sums(source, target, CrossEntropy(0.2))
        loss = sums.loss / sums.tokens
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
    norm = float(tf.linalg.global_norm(gradients))

    free = tiny_step(replicas, optimizer=lambda: keras.optimizers.SGD(1.0), **options)
    before = copies(free.model)
    result = free(0, *batch)
    assert result.tokens == np.count_nonzero(target)
    assert float(result.loss) == pytest.approx(float(loss), rel=1e-5)
    assert float(result.nll) == pytest.approx(float(sums.nll / sums.tokens), rel=1e-5)
    assert float(result.gradient_norm) == pytest.approx(norm, rel=1e-4)
    # Plain descent with rate 1 goes by the gradient itself.
    moved = [old - new for old, new in zip(before, copies(free.model), strict=True)]
    assert_close(moved, gradients, atol=1e-5)

    clipping = functools.partial(keras.optimizers.SGD, 1.0, global_clipnorm=norm / 3)
    clipped = tiny_step(replicas, optimizer=clipping, **options)
    result = clipped(0, *batch)
    assert float(result.gradient_norm) == pytest.approx(norm, rel=1e-4)
    moved = [old - new for old, new in zip(before, copies(clipped.model), strict=True)]
    assert float(tf.linalg.global_norm(moved)) == pytest.approx(norm / 3, rel=1e-4)
    assert_close(moved, [gradient / 3 for gradient in gradients], atol=1e-5)


@pytest.mark.parametrize(
    ("replicas", "make"),
    [
        (1, functools.partial(keras.optimizers.AdamW, 0.01, weight_decay=0.1, clipnorm=0.05)),
        (2, functools.partial(keras.optimizers.AdamW, 0.01, weight_decay=0.1, clipnorm=0.05)),
        (2, functools.partial(keras.optimizers.SGD, 0.1, momentum=0.9, clipvalue=0.01)),
        (2, functools.partial(keras.optimizers.Nadam, 0.01, global_clipnorm=0.05)),
        (1, functools.partial(keras.optimizers.Lion, 0.01)),
        (2, functools.partial(keras.optimizers.Adafactor, 0.01)),
    ],
)
def test_any_optimizer_is_keras_s_own_on_the_whole_batch(replicas, make):
    """Where Keras clips, it clips what is summed."""
    model, step = tiny_model(), tiny_step(replicas, micro_batches=2, optimizer=make)
    optimizer = make()
    optimizer.build(model.trainable_variables)
    for number, batch in enumerate(global_batches(3, 2)):
        source, target = (tf.constant(ids.reshape(6, -1)) for ids in batch)
        with tf.GradientTape() as tape:
            sums = model.loss_sums(source, target, CrossEntropy())
            loss = sums.loss / sums.tokens
        weights = [weight.value for weight in model.trainable_variables]
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
        optimizer.apply(gradients, model.trainable_variables)
        step(number, *batch)
    assert_close(copies(step.model), copies(model), atol=1e-4)


def test_a_small_gradient_is_not_clipped(one_device):
    norms = one_device[0][:3, 3]
    clipping = functools.partial(adam, learning_rate=1e-3, clip_norm=2 * max(norms))
    results, weights = train(tiny_step(optimizer=clipping))
    np.testing.assert_allclose(results, one_device[0], rtol=1e-5)
    assert_close(weights, one_device[1], atol=1e-6)


def test_a_loss_of_one_s_own():
    class Doubled(CrossEntropy):
        def __call__(self, vectors, table, labels):
            sums = super().__call__(vectors, table, labels)
            return sums._replace(loss=2 * sums.loss)

    batch = next(global_batches(1, 1))
    plain = tiny_step()(0, *batch)
    gin.external_configurable(Doubled, module="tests")
    gin.parse_config("TrainStep.loss = @tests.Doubled()")
    doubled = tiny_step()(0, *batch)
    gin.clear_config()
    assert float(doubled.loss) == pytest.approx(2 * float(plain.loss), rel=1e-5)
    assert float(doubled.gradient_norm) == pytest.approx(2 * float(plain.gradient_norm), rel=1e-4)


# Dropout


def test_dropout_is_a_function_of_seed_step_and_slice():
    step = tiny_step(dropout=0.3, micro_batches=2, optimizer=lambda: keras.optimizers.SGD(0.0))
    batch = next(global_batches(1, 2))

    def loss(step, number, batch=batch):
        return float(step(number, *batch).loss)

    first = loss(step, 4)
    others = [loss(step, 5), loss(step, 2**32 + 4)]
    # Were the draws of the two slices alike, their order would be all the same.
    others.append(loss(step, 4, [ids[::-1] for ids in batch]))
    others.append(loss(tiny_step(dropout=0.3, micro_batches=2, seed=8), 4))
    assert min(abs(loss - first) for loss in others) > 1e-4
    assert loss(step, 4) == first


def test_every_dropout_layer_draws_its_own():
    step = tiny_step(dropout=0.3)
    seeds = np.array(step.slice_gradients._dropout_seeds(tf.constant(0, tf.int64), tf.constant(0)))
    # Two embeddings, two sub-layers of the encoder, three of the decoder.
    assert len(seeds) == 7
    assert len({tuple(seed) for seed in seeds}) == 7


# Precision


def test_mixed_bfloat16_learns(one_device):
    step = tiny_step(dtype="mixed_bfloat16")
    batch = next(global_batches(1, 1))
    losses = [float(step(number, *batch).loss) for number in range(40)]
    assert losses[-1] < losses[0] - 0.3
    assert {str(weight.dtype) for weight in step.model.trainable_variables} == {"float32"}
    assert losses[0] == pytest.approx(one_device[0][0, 0], rel=0.02)


# What cannot be


@pytest.mark.parametrize(("replicas", "micro_batches"), [(1, 1), (2, 4)])
def test_another_number_of_slices(replicas, micro_batches):
    step = tiny_step(replicas, micro_batches=micro_batches)
    source, target = next(global_batches(1, 3))
    with pytest.raises(
        ValueError, match=rf"source has .*\(3, 2, 5\), expected .*{micro_batches} slices"
    ):
        step(0, source, target)
    source = np.zeros((micro_batches, 2, 5), np.int32)
    with pytest.raises(ValueError, match=r"target has the shape \(3, 2, 6\)"):
        step(0, source, target)
    with pytest.raises(ValueError, match=r"source has the shape \(6, 5\)"):
        step(0, np.zeros((6, 5), np.int32), target)


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ({"use_ema": True}, "MovingAverage.decay"),
        ({"loss_scale_factor": 8.0}, "mixed_bfloat16"),
        ({"gradient_accumulation_steps": 2}, "TrainStep.micro_batches"),
    ],
)
def test_an_optimizer_that_does_what_the_step_does(option, instead):
    with pytest.raises(UserError, match=rf"{next(iter(option))}=.*expected none: .*{instead}"):
        tiny_step(optimizer=lambda: keras.optimizers.Adam(0.1, **option))


def test_an_optimizer_that_applies_gradients_in_a_way_of_its_own():
    inner = keras.optimizers.Adam(0.1)
    with pytest.raises(UserError, match=r"LossScaleOptimizer, which applies .*; expected one that"):
        tiny_step(optimizer=lambda: keras.optimizers.LossScaleOptimizer(inner))


@pytest.mark.parametrize("micro_batches", [0, -1, 1.5, "2"])
def test_slices_that_are_no_number(micro_batches):
    with pytest.raises(UserError, match=r"TrainStep.micro_batches is .*, expected .*at least 1"):
        tiny_step(micro_batches=micro_batches)
