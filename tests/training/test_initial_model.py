"""What one model takes of another: rows by subword, everything else as it is."""

import shutil

import keras
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.records import weights_hash
from t2t_repro.runs.weights import name_of, named_values
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.fine_tuning import InitialModel
from tests.layer_test import randomize
from tests.training.tiny import written

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


def model_of(tied="all", rows=275, seed=0, **sizes):
    keras.utils.set_random_seed(seed)
    config = LayerConfig(**(CONFIG.to_dict() | sizes.pop("config", {})))
    model = Transformer(rows, **{"num_layers": 1, **sizes}, config=config, tied_embeddings=tied)
    model.build()
    return model


def write_initial(folder, pair, **sizes):
    """A model directory whose every weight has a value of its own."""
    model = randomize(model_of(**sizes), 3)
    written(folder, model, pair, step=7)
    return model


def tables(model):
    return {
        "source": model.source_embedding.table.numpy(),
        "target": model.embedding.table.numpy(),
        "softmax": model.softmax.table.numpy(),
    }


@pytest.mark.parametrize(
    ("before", "now"), [("all", "all"), ("all", "none"), ("target_softmax", "none")]
)
def test_rows_are_copied_by_subword_whatever_is_tied(before, now, subwords, tmp_path):
    old, new = shared(subwords["one"]), shared(subwords["two"])
    if before in OWN_SOURCE:
        old = SubwordPair(subwords["three"], subwords["one"])
    if now in OWN_SOURCE:
        new = SubwordPair(subwords["one"], subwords["two"])
    theirs = write_initial(tmp_path, old, tied=before)
    ours, fresh = (model_of(tied=now, seed=5) for _ in range(2))
    initial = InitialModel(tmp_path)
    initial.check_fits(ours)
    record = initial.copy_weights_to(ours, new)
    for role, rows in tables(ours).items():
        side = 0 if role == "source" else 1
        pieces, known = new[side].pieces(), old[side].pieces()
        assert 259 <= len(set(pieces) & set(known)) < 275 or pieces == known
        for piece, row, first in zip(pieces, rows, tables(fresh)[role], strict=True):
            expected = tables(theirs)[role][known.index(piece)] if piece in known else first
            np.testing.assert_array_equal(row, expected)
    rest = named_values(theirs)
    for weight in ours.trainable_variables:
        if "table" not in weight.path:
            np.testing.assert_array_equal(weight.numpy(), rest[name_of(weight)])
    common = len(set(new.target.pieces()) & set(old.target.pieces()))
    assert record.carried_rows["embedding/table"] == common
    assert record.new_rows["embedding/table"] == 275 - common
    assert record.weights_sha256 == weights_hash(rest)
    assert (record.checkpoint, record.model_dir) == ("checkpoints/step-7", str(tmp_path))
    shutil.copytree(tmp_path / "checkpoints", tmp_path / "old" / "checkpoints")
    named = "old/checkpoints/step-7"
    assert InitialModel(tmp_path, named).checkpoint == named


@pytest.mark.parametrize(
    ("before", "now", "vocabulary", "copied"),
    [(275, 290, "one", 275), (290, 290, "one", 290), (290, 290, "two", 0)],
)
def test_rows_without_a_subword_are_copied_with_the_same_vocabulary(
    before, now, vocabulary, copied, subwords, tmp_path
):
    theirs = write_initial(tmp_path, shared(subwords["one"]), rows=before)
    ours, fresh = (model_of(rows=now, seed=5) for _ in range(2))
    InitialModel(tmp_path).copy_weights_to(ours, shared(subwords[vocabulary]))
    rows, theirs_rows, fresh_rows = (tables(model)["target"] for model in (ours, theirs, fresh))
    np.testing.assert_array_equal(rows[:copied], theirs_rows[:copied])
    rest = max(copied, 275)
    np.testing.assert_array_equal(rows[rest:], fresh_rows[rest:])


def test_tables_that_were_trained_apart_are_not_tied(subwords, tmp_path):
    write_initial(tmp_path, shared(subwords["one"]), tied="source_target")
    with pytest.raises(UserError, match=r"ties target and softmax, .*'source_target'"):
        InitialModel(tmp_path).check_fits(model_of(tied="target_softmax"))


def test_dropout_rates_and_precision_may_differ(subwords, tmp_path):
    write_initial(tmp_path, shared(subwords["one"]))
    ours = model_of(dtype="mixed_bfloat16", config={"dropout": 0.3, "relu_dropout": 0.1})
    InitialModel(tmp_path).check_fits(ours)
    InitialModel(tmp_path).copy_weights_to(ours, shared(subwords["one"]))
