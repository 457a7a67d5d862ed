"""The Transformer as a whole: who sees what, cached = full decoding, XLA = eager, sizes."""

import dataclasses
import inspect
from typing import Any

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

from operations import parameter_count
from t2t_repro.errors import UserError
from t2t_repro.model.loss import CrossEntropy, smoothed_cross_entropy, smoothing_entropy
from t2t_repro.model.settings import LayerConfig, TransformerSettings
from t2t_repro.model.transformer import Transformer, gin_bindings
from tests.layer_test import randomize, run_layer_test

VOCAB, LENGTH = 13, 6
SOURCE = np.array([[5, 3, 9, 12, 4, 1], [7, 7, 2, 1, 0, 0], [1, 0, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[4, 11, 6, 1, 0], [2, 8, 10, 3, 1], [1, 0, 0, 0, 0]], np.int32)

OF_LAYERS = (
    "normalization", "norm", "activation", "d_k", "d_v", "attention_biases", "norm_epsilon",
    "decoder_self_attention",
)  # fmt: skip

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"num_layers": 2},
    "learned": {
        "positional_encoding": "learned",
        "max_length": 9,
        "normalization": "pre",
        "num_layers": 2,
        "num_decoder_layers": 1,
    },
    "Marian's": {
        "attention_biases": True,
        "norm_epsilon": 1e-5,
        "activation": "swish",
        "positional_encoding": "halves",
        "logits_bias": True,
        "num_decoder_layers": 2,
    },
    "biases, neighbourhood, own softmax": {
        "attention_biases": True,
        "neighbourhood": 3,
        "d_k": 3,
        "d_v": 5,
        "logits_bias": True,
        "tied_embeddings": "source_target",
    },
    "SSRU": {
        "decoder_self_attention": "ssru",
        "attention_biases": True,
        "normalization": "pre",
        "neighbourhood": 4,
        "num_decoder_layers": 2,
        "tied_embeddings": "target_softmax",
        "source_vocab_size": 17,
    },
    "OpenNMT's, none tied": {
        "first_position": 2,
        "start_id": 4,
        "source_eos": False,
        "tied_embeddings": "none",
        "activation": "gelu",
        "norm": "RMSNormalization",
    },
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def small_config(variant):
    options = dict(VARIANTS[variant])
    own = {name: options.pop(name) for name in OF_LAYERS if name in options}
    config = LayerConfig(d_model=8, d_ff=12, num_heads=2, dropout=0.0, **own)
    return {"vocab_size": VOCAB, "num_layers": 1, "config": config.to_dict(), **options}


def small_model(variant="paper"):
    return randomize(Transformer(**small_config(variant)))


# Shapes, configuration


def test_defaults_are_those_that_gin_files_have():
    fields = {field.name: field for field in dataclasses.fields(TransformerSettings)}
    arguments = inspect.signature(Transformer).parameters
    assert fields.keys() == arguments.keys() - {"name", "dtype", "trainable"}
    for name in fields.keys() - {"vocab_size", "config"}:
        assert arguments[name].default == fields[name].default


def test_sizes_of_layers_come_back():
    config = LayerConfig(d_model=8, num_heads=2, d_k=3, normalization="pre", relu_dropout=0.3)
    assert LayerConfig.of(config.to_dict()) == config
    assert LayerConfig.of(config) is config
    # Of an earlier version.
    assert LayerConfig.of({**config.to_dict(), "recompute": True}) == config


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"normalization": "none"}, "'none', expected 'post' or 'pre'"),
        ({"d_model": 10, "num_heads": 3, "d_k": 4}, "not divisible by num_heads=3"),
    ],
)
def test_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ValueError, match=message):
        LayerConfig(**sizes)


@every_variant
def test_transformer_as_a_layer(variant):
    config = small_config(variant)
    expected = parameter_count(Transformer(**config).get_config())
    run_layer_test(Transformer, config, ((SOURCE, TARGET),), (3, 5, VOCAB), expected)


def test_untied_is_tied_where_the_tables_are_the_same():
    """Logits, loss, and the gradient: the tied table's is the sum of those of its roles."""
    tied, untied = small_model(), Transformer(**small_config("paper"), tied_embeddings="none")
    untied.build()
    for theirs, weight in zip(bodies(tied), bodies(untied), strict=True):
        weight.assign(theirs)
    tables = [untied.embedding.table, untied.source_embedding.table, untied.softmax.table]
    for table in tables:
        table.assign(tied.embedding.table)
    np.testing.assert_array_equal(untied((SOURCE, TARGET)), tied((SOURCE, TARGET)))
    found = [gradients(tied, [tied.embedding.table]), gradients(untied, tables)]
    np.testing.assert_allclose(found[0][0], sum(found[1]), atol=1e-5)
    assert all(np.abs(gradient).max() > 1e-3 for gradient in found[1])


def bodies(model):
    return [*model.encoder.trainable_variables, *model.decoder.trainable_variables]


def gradients(model, tables):
    with tf.GradientTape() as tape:
        loss = model.loss_sums(SOURCE, TARGET, CrossEntropy(0.1)).loss
    return [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, [t.value for t in tables])]


@pytest.mark.parametrize("variant", ["Marian's", "biases, neighbourhood, own softmax"])
def test_the_loss_is_that_of_logits_with_a_bias(variant):
    """The bias is a column of the softmax's table there; loss and gradients are the same."""
    model, epsilon = small_model(variant), 0.1

    def of_logits():
        logits = tf.reshape(model((SOURCE, TARGET)), [-1, VOCAB])
        labels = tf.constant(TARGET.reshape(-1))
        loss, _ = smoothed_cross_entropy(logits, labels, epsilon)
        loss -= smoothing_entropy(VOCAB, epsilon)
        return tf.reduce_sum(tf.where(labels != 0, loss, 0.0))

    weights = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        found = model.loss_sums(SOURCE, TARGET, CrossEntropy(epsilon)).loss
        expected = of_logits()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    pairs = zip(tape.gradient(found, weights), tape.gradient(expected, weights), strict=True)
    for gradient, other in pairs:
        dense = [tf.convert_to_tensor(one).numpy() for one in (gradient, other)]
        np.testing.assert_allclose(dense[0], dense[1], atol=1e-4)
    gradient = tape.gradient(found, model.logits_bias.value)
    assert np.abs(gradient).min() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tied_embeddings": "some"}, "tied_embeddings is 'some', expected"),
        ({"source_vocab_size": 9}, "source_vocab_size is 9, but tied_embeddings='all' has"),
    ],
)
def test_embeddings_that_cannot_be(options, message):
    with pytest.raises(UserError, match=message):
        Transformer(VOCAB, 1, **options)


def test_rates_reach_their_layers():
    rates = LayerConfig(8, 12, 2, dropout=0.1, attention_dropout=0.2, relu_dropout=0.3)
    model = Transformer(VOCAB, 1, rates)
    model.build()
    found: dict[str, list[float]] = {}
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            found.setdefault(layer.name, []).append(layer.rate)
    assert found == {
        "source_dropout": [0.1],
        "target_dropout": [0.1],
        "output_dropout": [0.1] * 5,
        "weights_dropout": [0.2] * 3,
        "relu_dropout": [0.3] * 2,
    }


# Who sees what


@every_variant
def test_no_position_sees_its_own_token_or_later_ones(variant):
    model = small_model(variant)
    logits = model((SOURCE, TARGET)).numpy()
    for t in range(TARGET.shape[1]):
        changed = TARGET.copy()
        changed[:, t:] = (changed[:, t:] + 1) % VOCAB
        new = model((SOURCE, changed)).numpy()
        np.testing.assert_allclose(new[:, : t + 1], logits[:, : t + 1], atol=1e-5)
        if t + 1 < TARGET.shape[1]:
            assert np.abs(new[:, t + 1] - logits[:, t + 1]).max(-1).min() > 1e-3


@every_variant
def test_source_padding_never_changes_anything(variant):
    model = small_model(variant)
    padded = np.pad(SOURCE, ((0, 0), (0, 3)))
    memory, padded_memory = model.encode(SOURCE).numpy(), model.encode(padded).numpy()
    tokens = SOURCE != 0
    np.testing.assert_allclose(padded_memory[:, :LENGTH][tokens], memory[tokens], atol=1e-5)
    logits = model((SOURCE, TARGET))
    np.testing.assert_allclose(model((padded, TARGET)), logits, atol=1e-5)
    for row, length in enumerate(tokens.sum(1)):
        alone = model((SOURCE[row : row + 1, :length], TARGET[row : row + 1]))
        np.testing.assert_allclose(alone[0], logits[row], atol=1e-5)
    # Nor is a row of padding alone anything but numbers.
    assert np.isfinite(model((np.zeros_like(SOURCE), np.zeros_like(TARGET)))).all()


def test_source_and_target_learn_positions_of_their_own():
    model = small_model("learned")
    memory, logits = model.encode(SOURCE).numpy(), model((SOURCE, TARGET)).numpy()
    table = model.target_positional_encoding.table
    table.assign(np.roll(table.numpy(), 1, axis=0))
    np.testing.assert_array_equal(model.encode(SOURCE), memory)
    assert np.abs(model((SOURCE, TARGET)).numpy() - logits).max() > 1e-3


# Fast beside obvious


@pytest.mark.parametrize("variant", ["biases, neighbourhood, own softmax", "SSRU"])
def test_xla_is_eager_forward_and_backward(variant):
    """Of a layer each; of plain attention, test_one_loss.py."""
    model = randomize(Transformer(**small_config(variant) | {"num_decoder_layers": 1}))
    weights = [v.value for v in model.trainable_variables]
    others = [v.value for v in model.non_trainable_variables]

    def loss_and_gradients(weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits, _ = model.stateless_call(weights, others, (SOURCE, TARGET), training=True)
            loss = tf.reduce_sum(tf.nn.log_softmax(logits)[..., 3])
        return logits, tape.gradient(loss, weights)

    logits, gradients = loss_and_gradients(weights)
    xla_logits, xla_gradients = tf.function(loss_and_gradients, jit_compile=True)(weights)
    np.testing.assert_allclose(xla_logits, logits, atol=1e-4)
    for xla, eager in zip(xla_gradients, gradients, strict=True):
        np.testing.assert_allclose(xla, eager, atol=1e-3)


@every_variant
def test_bindings_make_a_model_of_the_same_sizes(variant):
    config = small_config(variant)
    model, text = Transformer(**config), gin_bindings(Transformer(**config))
    gin.parse_config(text)
    rows = {name: rows for name, rows in config.items() if name.endswith("vocab_size")}
    again = Transformer(**vars(TransformerSettings(**rows)))
    assert {**again.get_config(), "name": ""} == {**model.get_config(), "name": ""}
    assert "vocab_size" not in text


def test_what_is_the_paper_s_is_left_out():
    assert gin_bindings(Transformer(90, num_decoder_layers=6)) == ""
    assert "LayerConfig.activation = 'swish'\n" in gin_bindings(small_model("Marian's"))
