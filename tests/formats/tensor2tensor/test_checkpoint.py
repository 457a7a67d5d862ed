"""Weights of the original Tensor2Tensor: the same numbers come out, and nothing else is taken."""

import json

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.formats.tensor2tensor.checkpoint import step_of_t2t, transformer_from_t2t
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.masks import padding_mask
from tests import reference
from tests.oracle import VARIANTS, oracle_arrays, oracle_folder

VOCAB, WIDTH, FILTER, HEADS, LAYERS = 35, 8, 12, 2, 2
EMBEDDING = f"transformer/symbol_modality_{VOCAB}_{WIDTH}/shared"
HPARAMS = {
    "hidden_size": WIDTH,
    "filter_size": FILTER,
    "num_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_encoder_layers": 0,
    "layer_preprocess_sequence": "n",
    "layer_postprocess_sequence": "da",
    "layer_prepostprocess_dropout": 0.1,
    "attention_dropout": 0.2,
    "relu_dropout": 0.3,
    "attention_key_channels": 0,
    "pos": "timing",
    "norm_epsilon": 1e-6,
    "optimizer": "adam",
}


# Against the original


@pytest.fixture(scope="module", params=VARIANTS)
def original(request):
    """The original's model and arrays."""
    arrays = oracle_arrays(request.param)
    return transformer_from_t2t(oracle_folder(request.param) / "checkpoint"), arrays


@pytest.mark.parametrize("batch", ["batch1", "batch2"])
def test_forward_pass_is_the_originals(original, batch):
    model, arrays = original
    source, target = arrays[f"{batch}/source_ids"], arrays[f"{batch}/target_ids"]
    memory = model.encode(source)
    states = model.decode(target, memory, source)
    logits = model((source, target))
    token_log_probs = np.take_along_axis(reference.log_softmax(logits), target[..., None], axis=-1)[
        ..., 0
    ]

    def assert_equal(received, name, ids):
        tokens = ids != 0
        expected = arrays[f"{batch}/{name}"]
        np.testing.assert_allclose(np.asarray(received)[tokens], expected[tokens], atol=1e-4)

    assert_equal(memory, "encoder_output", source)
    assert_equal(states, "decoder_output", target)
    assert_equal(logits, "logits", target)
    assert_equal(token_log_probs, "token_log_probs", target)


def test_every_variable_of_the_original_is_in_the_model(original):
    model, arrays = original
    theirs = sorted(a.tobytes() for name, a in arrays.items() if name.startswith("transformer/"))
    assert sorted(weight.tobytes() for weight in model.get_weights()) == theirs


def test_one_checkpoint_by_its_prefix(original):
    model, arrays = original
    variant = "paper" if model.config.normalization == "post" else "v3"
    folder = oracle_folder(variant) / "checkpoint"
    other = transformer_from_t2t(folder / f"model.ckpt-{arrays['global_step']}")
    for ours, theirs in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Against a checkpoint written here


def t2t_shapes(layers=LAYERS, filter_size=FILTER):
    """Names and shapes of a pre-norm model's variables, but for the embedding."""
    norm = "layer_prepostprocess/layer_norm/layer_norm"
    shapes: dict[str, tuple[int, ...]] = {}
    for stack in ("encoder", "decoder"):
        norms = [f"body/{stack}"]
        for i in range(layers):
            prefix = f"body/{stack}/layer_{i}"
            kinds = ["self_attention"] + (["encdec_attention"] if stack == "decoder" else [])
            for kind in kinds:
                for part in ("q", "k", "v", "output_transform"):
                    name = f"{prefix}/{kind}/multihead_attention/{part}/kernel"
                    shapes[name] = (WIDTH, WIDTH)
            shapes[f"{prefix}/ffn/conv1/kernel"] = (WIDTH, filter_size)
            shapes[f"{prefix}/ffn/conv1/bias"] = (filter_size,)
            shapes[f"{prefix}/ffn/conv2/kernel"] = (filter_size, WIDTH)
            shapes[f"{prefix}/ffn/conv2/bias"] = (WIDTH,)
            norms += [f"{prefix}/{kind}" for kind in [*kinds, "ffn"]]
        for prefix in norms:
            shapes[f"{prefix}/{norm}_scale"] = shapes[f"{prefix}/{norm}_bias"] = (WIDTH,)
    return {f"transformer/{name}": shape for name, shape in shapes.items()}


def t2t_variables(shards=1, **sizes):
    rng = np.random.default_rng(0)
    variables = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in t2t_shapes(**sizes).items()
    }
    table = rng.normal(size=(VOCAB, WIDTH)).astype(np.float32)
    for i, shard in enumerate(np.array_split(table, shards)):
        variables[f"{EMBEDDING}/weights_{i}"] = shard
    return variables, table


def write_checkpoint(folder, variables, hparams=None):
    prefix = str(folder / "model.ckpt-7")
    names, values = zip(*variables.items(), strict=True)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values
    )
    tf.compat.v1.train.update_checkpoint_state(str(folder), prefix)
    (folder / "hparams.json").write_text(json.dumps({**HPARAMS, **(hparams or {})}))
    return folder


def assert_refused(message, function, *arguments):
    with pytest.raises(UserError, match=message) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


@pytest.mark.parametrize("shards", [1, 16])
def test_names_shards_and_hparams(tmp_path, shards):
    variables, table = t2t_variables(shards)
    capacity = {f"training/{name}/Adam": np.zeros_like(value) for name, value in variables.items()}
    capacity |= {f"{name}/Adam_1": np.zeros_like(value) for name, value in variables.items()}
    step = {"global_step": np.int64(7), "training/beta1_power": np.float32(0.5)}
    model = transformer_from_t2t(write_checkpoint(tmp_path, {**variables, **capacity, **step}))

    assert model.config == LayerConfig(
        WIDTH, FILTER, HEADS, WIDTH // HEADS, WIDTH // HEADS, 0.1, 0.2, 0.3, "pre"
    )
    assert (model.vocab_size, model.num_layers) == (VOCAB, LAYERS)
    assert model.positional_encoding.kind == "concatenated"
    np.testing.assert_array_equal(model.embedding.table, table)
    np.testing.assert_array_equal(
        model.decoder.layers[1].memory_attention.key_projection.kernel,
        variables["transformer/body/decoder/layer_1/encdec_attention/multihead_attention/k/kernel"],
    )
    np.testing.assert_array_equal(
        model.encoder.layers[0].around_feed_forward.norm.gamma,
        variables[
            "transformer/body/encoder/layer_0/ffn/layer_prepostprocess/layer_norm/layer_norm_scale"
        ],
    )
    loaded = sorted(weight.tobytes() for weight in model.get_weights())
    theirs = [v for name, v in variables.items() if not name.startswith(EMBEDDING)]
    assert loaded == sorted(value.tobytes() for value in [*theirs, table])


def test_channels_and_layers_of_their_own(tmp_path):
    hparams = {
        "attention_key_channels": 4,
        "attention_value_channels": 6,
        "num_hidden_layers": 9,
        "num_encoder_layers": LAYERS,
        "num_decoder_layers": LAYERS,
    }
    variables, _ = t2t_variables()
    for name in variables:
        if name.endswith(("/q/kernel", "/k/kernel")):
            variables[name] = variables[name][:, :4]
        elif name.endswith("/v/kernel"):
            variables[name] = variables[name][:, :6]
        elif name.endswith("/output_transform/kernel"):
            variables[name] = variables[name][:6]
    model = transformer_from_t2t(write_checkpoint(tmp_path, variables, hparams))
    assert (model.config.d_k, model.config.d_v, model.num_layers) == (2, 3, LAYERS)


def target_space_variables():
    variables, _ = t2t_variables()
    table = np.random.default_rng(1).normal(size=(32, WIDTH)).astype(np.float32)
    variables["transformer/body/target_space_embedding/kernel"] = table
    return variables, table


def test_the_target_space_is_added_at_every_position_of_the_source(tmp_path):
    variables, table = target_space_variables()
    model = transformer_from_t2t(write_checkpoint(tmp_path, variables), target_space=8)
    plain = transformer_from_t2t(write_checkpoint(tmp_path, t2t_variables()[0]))
    source = np.array([[5, 9, 30, 1, 0], [7, 1, 0, 0, 0]], np.int32)
    target = np.array([[3, 4, 1], [6, 1, 0]], np.int32)
    x = plain.positional_encoding(plain.embedding(source)) + table[8]
    memory = plain.encoder(x, attention_mask=padding_mask(source))
    tokens = source != 0
    np.testing.assert_allclose(
        np.asarray(model.encode(source))[tokens], np.asarray(memory)[tokens], atol=1e-5
    )
    expected = plain.logits(plain.decode(target, memory, source))
    np.testing.assert_allclose(model((source, target)), expected, atol=1e-4)
    assert np.abs(model((source, target)) - plain((source, target))).max() > 0.1


def test_the_target_space_must_be_known(tmp_path):
    folder = write_checkpoint(tmp_path, target_space_variables()[0])
    for space in (None, 32, -1):
        with pytest.raises(UserError, match=f"target_space is {space}, but .* of 32 rows"):
            transformer_from_t2t(folder, target_space=space)
    write_checkpoint(tmp_path, t2t_variables()[0])
    with pytest.raises(UserError, match=r"target_space=0 was given, but .* has no transformer/"):
        transformer_from_t2t(folder, target_space=0)


def test_hparams_elsewhere_and_one_checkpoint_of_several(tmp_path):
    variables, table = t2t_variables()
    folder = write_checkpoint(tmp_path, variables)
    (folder / "hparams.json").rename(folder / "other.json")
    assert_refused("hparams.json cannot be read", transformer_from_t2t, folder)
    model = transformer_from_t2t(folder / "model.ckpt-7", folder / "other.json")
    np.testing.assert_array_equal(model.embedding.table, table)
    assert step_of_t2t(folder) == 0
    write_checkpoint(folder, {**variables, "global_step": np.int64(1234)})
    assert step_of_t2t(folder / "model.ckpt-7") == 1234


@pytest.mark.parametrize(("divisor", "fitting"), [(1, (35,)), (None, (35,)), (7, (29, 32, 35))])
def test_the_vocabulary_has_as_many_subwords(tmp_path, divisor, fitting):
    hparams = {} if divisor is None else {"vocab_divisor": divisor}
    folder = write_checkpoint(tmp_path, t2t_variables()[0], hparams)
    for subwords in fitting:
        assert transformer_from_t2t(folder, subwords=subwords).vocab_size == VOCAB
    for subwords in (min(fitting) - 1, max(fitting) + 1):
        with pytest.raises(UserError, match=f"has {subwords} subwords, .* checkpoint has 35"):
            transformer_from_t2t(folder, subwords=subwords)


@pytest.mark.parametrize(
    ("hparams", "message"),
    [
        ({"pos": "emb"}, "pos='emb', expected 'timing'"),
        ({"hidden_size": 16}, "hidden_size=16, but the checkpoint has 8"),
        ({"num_hidden_layers": 3}, "num_encoder_layers=3, but the checkpoint has 2"),
    ],
)
def test_hparams_of_another_model(tmp_path, hparams, message):
    folder = write_checkpoint(tmp_path, t2t_variables()[0], hparams)
    with pytest.raises(UserError, match=message):
        transformer_from_t2t(folder)


def test_the_number_of_heads_is_enough(tmp_path):
    folder = write_checkpoint(tmp_path, t2t_variables()[0])
    expected = transformer_from_t2t(folder).get_config()["config"]
    (folder / "hparams.json").write_text('{"num_heads": 2}')
    layer = transformer_from_t2t(folder).get_config()["config"]
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}
    assert layer == {**expected, **rates}


def without(name):
    variables, _ = t2t_variables(shards=4)
    del variables[name]
    return variables


def with_another(name, shape, dtype=np.float32):
    variables, _ = t2t_variables()
    return variables | {name: np.ones(shape, dtype)}


def with_nan(name):
    variables, _ = t2t_variables()
    return variables | {
        name: np.where(np.arange(variables[name].size) == 3, np.nan, 0.5).astype(np.float32)
    }


LAYER_1 = "transformer/body/decoder/layer_1"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (without(f"{LAYER_1}/ffn/conv2/bias"), "no variable .*layer_1/ffn/conv2/bias, expected"),
        (without(f"{EMBEDDING}/weights_2"), r"shards \[0, 1, 3\]"),
        (
            with_another(f"{EMBEDDING}/weights_0", (VOCAB, 6)),
            r"the embedding with the shape \(35, 6\), expected \(35, 8\)",
        ),
        (with_another(f"{LAYER_1}/ffn/conv1/kernel", (8, 10)), r"\(8, 10\), expected \(8, 12\)"),
        (with_another(f"{LAYER_1}/ffn/conv2/bias", (8,), np.int32), "as int32, expected float32"),
        (with_nan(f"{LAYER_1}/ffn/conv2/bias"), "values that are not finite in .*conv2/bias: give"),
        (t2t_variables(filter_size=10)[0], "filter_size=12, but the checkpoint has 10"),
        (t2t_variables(layers=3)[0], "num_encoder_layers=2, but the checkpoint has 3"),
        (t2t_variables(layers=1)[0], "num_encoder_layers=2, but the checkpoint has 1"),
    ],
    ids=[
        "variable", "shard", "embedding's shape", "shape", "type", "not finite", "hparams' shape",
        "more layers", "fewer layers",
    ],
)  # fmt: skip
def test_checkpoints_that_do_not_fit(tmp_path, variables, message):
    folder = write_checkpoint(tmp_path, variables)
    with pytest.raises(UserError, match=message):
        transformer_from_t2t(folder)


def test_two_vocabularies(tmp_path):
    variables, table = t2t_variables()
    variables["transformer/symbol_modality_99_8/shared/weights_0"] = table
    folder = write_checkpoint(tmp_path, variables)
    assert_refused("in 2 scopes", transformer_from_t2t, folder)


def test_missing_files(tmp_path):
    assert_refused("hparams.json cannot be read", transformer_from_t2t, tmp_path)
    (tmp_path / "hparams.json").write_text(json.dumps(HPARAMS))
    assert_refused("no checkpoint that TensorFlow can read", transformer_from_t2t, tmp_path)
    for path in (tmp_path / "model.ckpt-7", tmp_path / "hparams.json"):
        assert_refused("no checkpoint that TensorFlow can read", transformer_from_t2t, path)


def test_a_folder_whose_name_is_a_pattern(tmp_path):
    (tmp_path / "t2t[1]").mkdir()
    folder = write_checkpoint(tmp_path / "t2t[1]", t2t_variables(shards=1)[0])
    plain = write_checkpoint(tmp_path, t2t_variables(shards=1)[0])
    expected = transformer_from_t2t(plain).get_weights()
    for path in (folder, folder / "model.ckpt-7"):
        for ours, theirs in zip(transformer_from_t2t(path).get_weights(), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for file in folder.glob("model.ckpt-7.*"):
        file.rename(folder / file.name.replace("7", "[7]", 1))
    message = r"TensorFlow takes \S+/model\.ckpt-\[7\] for a pattern of names; expected letters"
    assert_refused(message, transformer_from_t2t, folder / "model.ckpt-[7]")
