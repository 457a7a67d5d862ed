"""Checkpoints of Tensor2Tensor, written here: names, shards, sizes, and what is refused."""

import json

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.formats import tensor2tensor
from t2t_repro.formats.tensor2tensor import step_of_t2t, transformer_from_t2t
from t2t_repro.model.masks import padding_mask
from t2t_repro.model.settings import LayerConfig
from tests.oracle import oracle_arrays

VOCAB, WIDTH, FILTER, HEADS, LAYERS = 96, 32, 64, 4, 2
EMBEDDING = f"transformer/symbol_modality_{VOCAB}_{WIDTH}/shared"
HPARAMS = {
    "num_heads": HEADS,
    "layer_prepostprocess_dropout": 0.1,
    "attention_dropout": 0.2,
    "relu_dropout": 0.3,
    "pos": "timing",
    "norm_epsilon": 1e-6,
}


def t2t_variables(shards=1, decoder_layers=LAYERS):
    """Returns the variables of the original's pre-norm model, and its embedding."""
    variables = {
        name: value
        for name, value in oracle_arrays("v3").items()
        if name.startswith("transformer/") and f"decoder/layer_{decoder_layers}/" not in name
    }
    table = variables.pop(f"{EMBEDDING}/weights_0")
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


@pytest.mark.parametrize(("shards", "decoder_layers"), [(1, LAYERS), (16, 1)])
def test_names_shards_and_hparams(tmp_path, shards, decoder_layers):
    variables, table = t2t_variables(shards, decoder_layers=decoder_layers)
    moments = {f"training/{name}/Adam": np.zeros_like(value) for name, value in variables.items()}
    step = {"global_step": np.int64(1234), "training/beta1_power": np.float32(0.5)}
    folder = tmp_path / "before"
    folder.mkdir()
    hparams = {"num_decoder_layers": decoder_layers}
    write_checkpoint(folder, {**variables, **moments, **step}, hparams)
    # The file "checkpoint" goes on naming the old place.
    folder = folder.rename(tmp_path / "t2t")
    model = transformer_from_t2t(folder)
    assert step_of_t2t(folder) == 1234
    assert model.config == LayerConfig(
        WIDTH, FILTER, HEADS, WIDTH // HEADS, WIDTH // HEADS, 0.1, 0.2, 0.3, "pre"
    )
    sizes = model.vocab_size, model.num_layers, model.num_decoder_layers
    assert sizes == (VOCAB, LAYERS, decoder_layers)
    assert model.positional_encoding.kind == "concatenated"
    np.testing.assert_array_equal(model.embedding.table, table)
    loaded = sorted(weight.tobytes() for weight in model.get_weights())
    theirs = [v for name, v in variables.items() if not name.startswith(EMBEDDING)]
    assert loaded == sorted(value.tobytes() for value in [*theirs, table])


def test_the_target_space_is_added_at_every_position_of_the_source(tmp_path):
    variables, _ = t2t_variables()
    plain = transformer_from_t2t(write_checkpoint(tmp_path, variables))
    with pytest.raises(UserError, match="target_space=0"):
        transformer_from_t2t(tmp_path, target_space=0)
    table = np.random.default_rng(1).normal(size=(32, WIDTH)).astype(np.float32)
    variables["transformer/body/target_space_embedding/kernel"] = table
    write_checkpoint(tmp_path, variables)
    for space in (None, 32, -1):
        with pytest.raises(UserError, match=f"target_space is {space}"):
            transformer_from_t2t(tmp_path, target_space=space)
    model = transformer_from_t2t(tmp_path, target_space=8)
    source = np.array([[5, 9, 30, 1, 0], [7, 1, 0, 0, 0]], np.int32)
    target = np.array([[3, 4, 1], [6, 1, 0]], np.int32)
    x = plain.positional_encoding(plain.embedding(source)) + table[8]
    memory = plain.encoder(x, attention_mask=padding_mask(source))
    expected = plain.logits(plain.decode(target, memory, source))
    np.testing.assert_allclose(model((source, target)), expected, atol=1e-4)
    assert np.abs(model((source, target)) - plain((source, target))).max() > 0.1


def test_hparams_elsewhere_and_one_checkpoint_of_several(tmp_path):
    variables, table = t2t_variables()
    folder = write_checkpoint(tmp_path, variables)
    hparams = (folder / "hparams.json").rename(folder / "other.json")
    with pytest.raises(UserError, match=r"hparams.json cannot be used"):
        transformer_from_t2t(folder)
    hparams.write_text('{"num_heads": 4}')
    model = transformer_from_t2t(folder / "model.ckpt-7", hparams)
    np.testing.assert_array_equal(model.embedding.table, table)
    assert model.config == LayerConfig(
        WIDTH, FILTER, HEADS, WIDTH // HEADS, WIDTH // HEADS, 0.0, normalization="pre"
    )
    assert step_of_t2t(folder) == 0


@pytest.mark.parametrize(("divisor", "fitting"), [(None, (96,)), (12, (85, 96))])
def test_the_vocabulary_has_as_many_subwords(tmp_path, divisor, fitting):
    hparams = {} if divisor is None else {"vocab_divisor": divisor}
    folder = write_checkpoint(tmp_path, t2t_variables()[0], hparams)
    for subwords in fitting:
        assert transformer_from_t2t(folder, subwords=subwords).vocab_size == VOCAB
    for subwords in (min(fitting) - 1, max(fitting) + 1):
        with pytest.raises(UserError, match=f"{subwords} subwords"):
            transformer_from_t2t(folder, subwords=subwords)


def test_other_layouts_are_refused(tmp_path):
    variables, table = t2t_variables()
    second = {EMBEDDING.replace(str(VOCAB), "97") + "/weights_0": table}
    moved = {name.replace("/body/", "/parallel_0/body/"): v for name, v in variables.items()}
    for others in (variables | second, moved):
        with pytest.raises(UserError, match="one embedding"):
            transformer_from_t2t(write_checkpoint(tmp_path, others))


def test_a_variable_that_is_missing_is_named(tmp_path):
    variables, _ = t2t_variables()
    del variables[bias := "transformer/body/decoder/layer_1/ffn/conv2/bias"]
    with pytest.raises(UserError, match=bias):
        transformer_from_t2t(write_checkpoint(tmp_path, variables))


def test_a_checkpoint_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="cannot be used"):
        transformer_from_t2t(tmp_path)
    folder = write_checkpoint(tmp_path, t2t_variables()[0], {"vocab_divisor": "12"})
    with pytest.raises(UserError, match="vocab_divisor"):
        transformer_from_t2t(folder)
    (data,) = folder.glob("*.data*")
    data.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(UserError, match="cannot be used"):
        transformer_from_t2t(folder)


def test_heads_are_divided_among_the_channels_of_keys_and_values(tmp_path):
    stacks = [f"transformer/body/{stack}/layer_0" for stack in ("encoder", "decoder")]
    shapes = {f"{layer}/ffn/conv1/kernel": (512, 2048) for layer in stacks}
    for part, channels in (("k", 128), ("v", 256)):
        shapes[f"{stacks[0]}/self_attention/multihead_attention/{part}/kernel"] = (512, channels)
    path = tmp_path / "hparams.json"
    path.write_text('{"num_heads": 8}')
    config = LayerConfig(512, 2048, 8, 16, 32, 0.0, normalization="post")
    expected = {"config": config, "num_layers": 1, "num_decoder_layers": 1}
    assert tensor2tensor.sizes_of(tensor2tensor.read_hparams(path), shapes) == expected
    path.write_text('{"self_attention_type": "local"}')
    with pytest.raises(UserError, match="self_attention_type = 'local'"):
        tensor2tensor.read_hparams(path)
