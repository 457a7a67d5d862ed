"""What a Keras user does with the package, none of our command lines in sight."""

import multiprocessing
import types
from concurrent.futures import ProcessPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf

import t2t_repro
from t2t_repro import LabelSmoothedCrossEntropy, LayerConfig, Transformer, TransformerSchedule
from t2t_repro.errors import UserError
from t2t_repro.model.loss import CrossEntropy
from tests.processes import output_of
from tests.training.tiny import devices

VOCAB, SENTENCES, LENGTH = 20, 64, 7
RNG = np.random.default_rng(0)


def sentences():
    """Rows of 2 to LENGTH ids, int64 as NumPy makes them."""
    ids = RNG.integers(2, VOCAB, (SENTENCES, LENGTH))
    # So many tokens in the first half as in the second: two replicas then have equal shares.
    lengths = np.tile(RNG.integers(2, LENGTH + 1, SENTENCES // 4), 4)
    ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    return ids


SOURCE, TARGET = sentences(), sentences()
PAIR = (SOURCE, TARGET)


def compiled_model(**options):
    keras.utils.set_random_seed(3)
    model = Transformer(VOCAB, 1, LayerConfig(16, 32, 2, dropout=0.0))
    model.compile(
        keras.optimizers.Adam(TransformerSchedule(16, 20), beta_2=0.98),
        LabelSmoothedCrossEntropy(0.2),
        metrics=["accuracy"],
        **options,
    )
    return model


def fit(model, epochs=3):
    pairs = tf.data.Dataset.from_tensor_slices(({"source": SOURCE, "target": TARGET}, TARGET))
    # Batches of equal numbers of tokens, so that a mean of means is the mean.
    return model.fit(pairs.batch(SENTENCES // 2), epochs=epochs, shuffle=False, verbose=0).history


@pytest.fixture(scope="module")
def fitted():
    """A model that `fit` has trained, without ever being built by hand, and what it wrote down."""
    model = compiled_model()
    return types.SimpleNamespace(model=model, history=fit(model))


# Names


def test_every_name_is_there():
    names = [name for name in dir(t2t_repro) if name in t2t_repro.__all__]
    assert names == sorted(t2t_repro.__all__)
    for name in names:
        assert getattr(t2t_repro, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Transfromer'"):
        t2t_repro.Transfromer  # type: ignore[attr-defined]  # noqa: B018


LOAD = """
import importlib, sys
import t2t_repro
assert not {"tensorflow", "keras", "numpy"} & set(sys.modules)
import keras
registry = keras.saving.get_custom_objects()
names = {name for name in registry if name.startswith("t2t_repro>")}
# As it is where Keras has been imported first.
registry.clear()
importlib.reload(t2t_repro)
assert names == set(registry) == {"t2t_repro>" + name for name in t2t_repro._REGISTERED}
assert "t2t_repro.model" not in sys.modules
import numpy as np
model = keras.models.load_model(sys.argv[1] + "/m.keras")
classes = [registry[name] for name in names]
assert all(isinstance(value, type) for value in classes), classes
assert {one.__name__ for one in classes} == set(t2t_repro._REGISTERED)
data = np.load(sys.argv[1] + "/data.npz")
pair = data["source"], data["target"]
np.testing.assert_allclose(model(pair), data["logits"], atol=1e-5)
np.testing.assert_allclose(model.evaluate(pair, pair[1], verbose=0), data["scores"], rtol=1e-5)
assert model.optimizer.iterations == data["iterations"]
np.testing.assert_allclose(model.optimizer.learning_rate, data["rate"], rtol=1e-6)
print("done")
"""


def test_a_file_is_loaded_by_a_process_that_has_imported_the_package_alone(fitted, tmp_path):
    fitted.model.save(tmp_path / "m.keras")
    np.savez(
        tmp_path / "data.npz",
        source=SOURCE,
        target=TARGET,
        logits=fitted.model(PAIR),
        scores=fitted.model.evaluate(PAIR, TARGET, verbose=0),
        iterations=fitted.model.optimizer.iterations.numpy(),
        rate=fitted.model.optimizer.learning_rate.numpy(),
    )
    assert output_of("-c", LOAD, str(tmp_path)) == "done\n"


# compile, fit, evaluate, predict, summary


def test_fit_trains(fitted):
    assert fitted.history["loss"][-1] < fitted.history["loss"][0] - 0.1
    assert set(fitted.history) == {"loss", "accuracy"}


def test_evaluate_counts_tokens_alone(fitted):
    loss, accuracy = fitted.model.evaluate(PAIR, TARGET, batch_size=SENTENCES, verbose=0)
    sums = fitted.model.loss_sums(*PAIR, CrossEntropy(0.2))
    assert loss == pytest.approx(float(sums.loss / sums.tokens), rel=1e-5)
    is_right = fitted.model.predict(PAIR, verbose=0).argmax(-1) == TARGET
    assert accuracy == pytest.approx(is_right[TARGET != 0].mean(), rel=1e-5)


def test_ids_that_keras_made_floating_point_are_the_same_ids():
    """bfloat16 would make 256 of 257."""
    model = Transformer(400, 1, LayerConfig(16, 32, 2), dtype="mixed_bfloat16")
    ids = np.array([[257, 399, 1, 0]])
    expected = model((ids, ids))
    assert expected.dtype == tf.bfloat16
    as_floats = model((ids.astype(np.float32), ids.astype(np.float32)))
    np.testing.assert_array_equal(tf.cast(as_floats, tf.float32), tf.cast(expected, tf.float32))


def test_a_model_among_others():
    """The Transformer as a layer of a functional model, and through a file."""
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in ("s", "t"))
    logits = Transformer(VOCAB, 1, {"d_model": 16, "d_ff": 32, "num_heads": 2})((source, target))
    assert logits.shape == (None, None, VOCAB)
    model = keras.Model([source, target], keras.layers.Activation("softmax")(logits))
    again = keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    probabilities = model.predict(PAIR, verbose=0)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(again.predict(PAIR, verbose=0), probabilities)


# export


def test_export_after_fit(fitted, tmp_path):
    # A signature may be given, by its place too.
    fitted.model.export(tmp_path, "tf_saved_model", False, [[tf.TensorSpec([1, 2], "int32")] * 2])
    fitted.model.export(tmp_path / "m", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    expected = fitted.model.predict(PAIR, verbose=0)
    for dtype in ("int32", "int64"):
        pair = tuple(ids.astype(dtype) for ids in PAIR)
        np.testing.assert_allclose(loaded.serve(pair), expected, atol=1e-5)
    signature = loaded.signatures["serving_default"]
    source, target = (tf.constant(ids[:3, :5], tf.int32) for ids in PAIR)
    (logits,) = signature(source=source, target=target).values()
    np.testing.assert_allclose(logits, fitted.model((source, target)), atol=1e-5)


# Several replicas


def fitted_on_two_replicas():
    """What `fit` tells, and the shape of what `predict` gives."""
    import tests.replicas  # noqa: F401 (this runs in a process of its own)

    with devices(2).scope():
        model = compiled_model()
    return fit(model), model.predict(PAIR, verbose=0).shape


@pytest.mark.slow
def test_a_mirrored_strategy_trains_the_same(fitted):
    # The collectives of one process's strategies have the same names: the train step's are others.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        history, shape = process.submit(fitted_on_two_replicas).result()
    for name, values in fitted.history.items():
        assert history[name] == pytest.approx(values, rel=1e-4), name
    assert shape == (SENTENCES, LENGTH, VOCAB)


@pytest.mark.slow
def test_xla_trains_the_same(fitted):
    history = fit(compiled_model(jit_compile=True))
    for name, values in fitted.history.items():
        assert history[name] == pytest.approx(values, rel=1e-4), name


def test_xla_on_several_replicas_is_refused():
    with devices(2).scope():
        model = compiled_model(jit_compile=True)
    with pytest.raises(UserError, match=r"2 replicas.*python -m t2t_repro.trainer"):
        fit(model)


# What is given wrongly


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model(SOURCE, TARGET), "one ndarray, expected source and target"),
        (lambda model: model({"src": SOURCE, "tgt": TARGET}), "one dict, expected"),
    ],
)
def test_what_is_given_wrongly_is_said_in_one_line(fitted, call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted.model)
