"""What one model takes of another: rows by piece, everything else as it is."""

import json
import shutil

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import weights_hash
from t2t_repro.runs.weights import name_of, named_values
from t2t_repro.text.subword_model import SubwordPair, matching_ids, shared
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.fine_tuning import InitialModel
from tests.layer_test import randomize
from tests.text.test_t2t import VOCABULARY, write

CONFIG = LayerConfig(d_model=4, d_ff=4, num_heads=2)
OWN_SOURCE = ("target_softmax", "none")


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    """Three vocabularies that share PAD, EOS, UNK, bytes and some letters and words."""
    folder = tmp_path_factory.mktemp("subwords")
    texts = {"one": "a man on a bench", "two": "a hen on a bank", "three": "zwei Frauen"}
    return {
        name: SubwordTraining(vocab_size=275).train([text] * 20, folder / name)
        for name, text in texts.items()
    }


def model_of(pair, tied="all", rows=275, seed=0, **sizes):
    keras.utils.set_random_seed(seed)
    config = LayerConfig(**(CONFIG.to_dict() | sizes.pop("config", {})))
    model = Transformer(rows, **{"num_layers": 1, **sizes}, config=config, tied_embeddings=tied)
    model.build()
    return model


def write_parent(folder, pair, **options):
    """A model directory whose every weight has a value of its own."""
    directory = ModelDirectory(folder)
    model = model_of(pair, **options)
    randomize(model, 3)
    directory.describe(model, pair, "", "")
    directory.write_imported(model, 7)
    return model


def tables(model):
    return {
        "source": model.source_embedding.table.numpy(),
        "target": model.embedding.table.numpy(),
        "softmax": model.softmax.table.numpy(),
    }


@pytest.mark.parametrize(
    ("there", "now"),
    [
        *(("all", tied) for tied in ("all", "target_softmax", "source_target", "none")),
        ("target_softmax", "target_softmax"),
        ("target_softmax", "none"),
        ("source_target", "source_target"),
        ("none", "none"),
    ],
)
def test_rows_are_carried_over_by_piece_whatever_is_tied(there, now, subwords, tmp_path):
    old, new = shared(subwords["one"]), shared(subwords["two"])
    if there in OWN_SOURCE:
        old = SubwordPair(subwords["three"], subwords["one"])
    if now in OWN_SOURCE:
        new = SubwordPair(subwords["one"], subwords["two"])
    theirs = write_parent(tmp_path, old, tied=there)
    ours, fresh = (model_of(new, tied=now, seed=5) for _ in range(2))
    parent = InitialModel(tmp_path)
    parent.check_fits(ours)
    found = parent.give(ours, new)
    for role, rows in tables(ours).items():
        side = 0 if role == "source" else 1
        pieces, before = new[side].pieces(), old[side].pieces()
        assert 259 <= len(set(pieces) & set(before)) < 275 or pieces == before
        for piece, row, first in zip(pieces, rows, tables(fresh)[role], strict=True):
            expected = tables(theirs)[role][before.index(piece)] if piece in before else first
            np.testing.assert_array_equal(row, expected)
    rest = named_values(theirs)
    for weight in ours.trainable_variables:
        if "table" not in weight.path:
            np.testing.assert_array_equal(weight.numpy(), rest[name_of(weight)])
    common = len(set(new.target.pieces()) & set(old.target.pieces()))
    assert found.carried_rows["embedding/table"] == common
    assert found.new_rows["embedding/table"] == 275 - common
    assert set(found.new_rows) == {
        name_of(weight) for weight in ours.trainable_variables if "table" in weight.path
    }
    assert found.weights_sha256 == weights_hash(rest)
    assert (found.checkpoint, found.model_dir) == ("checkpoints/step-7", str(tmp_path))


@pytest.mark.parametrize("tied", ["all", "source_target"])
def test_the_bias_of_the_logits_is_carried_over_by_piece(tied, subwords, tmp_path):
    old, new = shared(subwords["one"]), shared(subwords["two"])
    options = {"tied": tied, "logits_bias": True, "config": {"attention_biases": True}}
    theirs = write_parent(tmp_path, old, **options)
    ours = model_of(new, seed=5, **options)
    parent = InitialModel(tmp_path)
    parent.check_fits(ours)
    found = parent.give(ours, new)
    before = old.target.pieces()
    for piece, value in zip(new.target.pieces(), ours.logits_bias.numpy(), strict=True):
        assert value == (theirs.logits_bias.numpy()[before.index(piece)] if piece in before else 0)
    assert found.carried_rows["logits_bias"] == found.carried_rows["embedding/table"]
    assert found.new_rows["logits_bias"] > 0
    with pytest.raises(UserError, match=r"\(logits_bias True there, False now\)"):
        parent.check_fits(model_of(new, seed=5, **options | {"logits_bias": False}))


@pytest.mark.parametrize(("there", "now"), [(275, 290), (290, 290), (290, 275)])
def test_rows_that_no_piece_has_are_carried_with_the_same_vocabulary(
    there, now, subwords, tmp_path
):
    pair = shared(subwords["one"])
    theirs = write_parent(tmp_path, pair, rows=there)
    ours, fresh = (model_of(pair, rows=now, seed=5) for _ in range(2))
    found = InitialModel(tmp_path).give(ours, pair)
    both = min(there, now)
    rows = tables(ours)["target"]
    np.testing.assert_array_equal(rows[:both], tables(theirs)["target"][:both])
    np.testing.assert_array_equal(rows[both:], tables(fresh)["target"][both:])
    assert (found.carried_rows, found.new_rows) == (
        {"embedding/table": 275},
        {"embedding/table": 0},
    )


def test_rows_that_no_piece_has_are_fresh_with_another_vocabulary(subwords, tmp_path):
    write_parent(tmp_path, shared(subwords["one"]), rows=290)
    ours, fresh = (model_of(shared(subwords["two"]), rows=290, seed=5) for _ in range(2))
    InitialModel(tmp_path).give(ours, shared(subwords["two"]))
    np.testing.assert_array_equal(tables(ours)["target"][275:], tables(fresh)["target"][275:])


@pytest.mark.parametrize(
    ("there", "now", "roles"),
    [
        ("none", "all", "source and target and softmax"),
        ("target_softmax", "source_target", "source and target"),
        ("source_target", "target_softmax", "target and softmax"),
    ],
)
def test_what_was_trained_apart_is_not_tied(there, now, roles, subwords, tmp_path):
    pair = shared(subwords["one"])
    write_parent(tmp_path, pair, tied=there)
    with pytest.raises(UserError, match=rf"'{now}' ties {roles}, trained apart .* bind '{there}'"):
        InitialModel(tmp_path).check_fits(model_of(pair, tied=now))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_layers": 2}, "num_layers 1 there, 2 now"),
        ({"config": {"d_model": 8}}, "config.d_model 4 there, 8 now"),
        ({"config": {"num_heads": 1}}, "config.num_heads 2 there, 1 now"),
        (
            {"positional_encoding": "learned", "max_length": 9},
            "positional_encoding 'interleaved' there, 'learned' now; max_length None there, 9 now",
        ),
        ({"neighbourhood": 3}, "neighbourhood None there, 3 now"),
    ],
)
def test_other_sizes_are_one_line_that_says_what_differs(sizes, message, subwords, tmp_path):
    pair = shared(subwords["one"])
    write_parent(tmp_path, pair)
    with pytest.raises(UserError, match=rf"of other sizes \({message}\): bind") as error:
        InitialModel(tmp_path).check_fits(model_of(pair, **sizes))
    assert "\n" not in str(error.value)


def test_rates_and_precision_are_a_run_s_own(subwords, tmp_path):
    pair = shared(subwords["one"])
    write_parent(tmp_path, pair)
    ours = model_of(pair, dtype="mixed_bfloat16", config={"dropout": 0.3, "relu_dropout": 0.1})
    InitialModel(tmp_path).check_fits(ours)
    InitialModel(tmp_path).give(ours, pair)


def test_pieces_of_tensor2tensor_s_and_sentencepiece_s(subwords, tmp_path):
    """PAD and EOS, which have other names there, are the same; an empty line is no piece."""
    t2t = T2TSubwords(write(tmp_path / "vocab", [*VOCABULARY[:20], "", *VOCABULARY[20:]]))
    longer = T2TSubwords(write(tmp_path / "longer", [*VOCABULARY, "wombat_"]))
    ids = matching_ids(longer, t2t)
    assert [*ids[:20], *ids[20:-1] - 1] == [*range(len(VOCABULARY))]
    assert ids[-1] == -1
    assert matching_ids(t2t, longer)[20] == -1
    across = matching_ids(subwords["one"], t2t)
    assert across[:2].tolist() == [0, 1]
    a = VOCABULARY.index("a")
    assert across[subwords["one"].pieces().index("a")] == (a if a < 20 else a + 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: shutil.rmtree(path), "is no model directory: model.json is missing"),
        (lambda path: shutil.rmtree(path / "checkpoints"), "no checkpoint of any kind"),
        (lambda path: (path / "subwords.model").write_text("x"), "is not a SentencePiece model"),
        (lambda path: (path / "model.json").write_text("{}"), "does not describe a Transformer"),
        (
            lambda path: (path / "checkpoints" / "step-7.index").write_bytes(b"x" * 99),
            "is not the index of a whole checkpoint",
        ),
    ],
)
def test_a_parent_that_cannot_be_used_is_one_line(spoil, message, subwords, tmp_path):
    folder = tmp_path / "parent"
    write_parent(folder, shared(subwords["one"]))
    spoil(folder)
    with pytest.raises(UserError, match=rf"^train\.init_from: .*{message}") as error:
        InitialModel(folder)
    assert "\n" not in str(error.value)


def test_a_parent_with_fewer_rows_than_pieces(subwords, tmp_path):
    write_parent(tmp_path, shared(subwords["one"]), rows=270)
    with pytest.raises(UserError, match="has 275 subwords, but the model was trained with 270"):
        InitialModel(tmp_path)


def test_what_strangers_say_of_ancestors_is_looked_at(subwords, tmp_path):
    write_parent(tmp_path, shared(subwords["one"]))
    directory = ModelDirectory(tmp_path)
    ours = model_of(shared(subwords["one"]))
    first = InitialModel(tmp_path).give(ours, shared(subwords["one"]))
    directory.write_ancestor(first, ModelDirectory(tmp_path / "none"))
    assert directory.ancestors() == [first]
    entry = first.to_dict()
    contents: list[object] = [
        [],
        {"ancestors": 3},
        {"ancestors": [{}]},
        {"ancestors": [entry | {"checkpoint": 3}]},
        {"ancestors": [entry | {"new_rows": {"a": "b"}}]},
        {"ancestors": [entry | {"new_rows": 7}]},
    ]
    for content in contents:
        directory.ancestry_json.write_text(json.dumps(content))
        assert directory.ancestors() == []


def test_the_hash_is_of_names_shapes_and_values():
    one = {"a": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}
    assert weights_hash(one) == weights_hash(dict(reversed(one.items())))
    others = [
        {"a": one["a"].T, "b": one["b"]},
        {"a": one["a"], "c": one["b"]},
        {"a": one["a"], "b": np.array([1, 2], np.float32)},
    ]
    assert len({weights_hash(weights) for weights in [one, *others]}) == 4
