"""A vocabulary for each side, through the command lines."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations)

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.loading import load_translator
from t2t_repro.evaluation.scores import bleu
from t2t_repro.text.training import SubwordTraining
from tests.whole.runs import lines_of

FILES = "source_subwords.model", "target_subwords.model"


@pytest.fixture(scope="module")
def translator(two_run):
    return load_translator(two_run.folder / "model")


def test_each_vocabulary_is_learnt_from_its_side_alone(two_run, tmp_path):
    data = PreparedData(two_run.folder / "data" / "prepared")
    sides = zip((290, 310), FILES, data.text("train"), strict=True)
    for size, name, lines in sides:
        SubwordTraining(vocab_size=size).train(lines, tmp_path / name)
        for directory in (data.directory, two_run.folder / "model"):
            assert (directory / name).read_bytes() == (tmp_path / name).read_bytes()
    sizes = json.loads((two_run.folder / "model" / "model.json").read_text())
    assert (sizes["source_vocab_size"], sizes["vocab_size"]) == (290, 310)
    assert not (two_run.folder / "model" / "subwords.model").exists()


def test_the_task_is_learnt(two_run):
    expected = lines_of(two_run.folder / "test.target")
    assert bleu(lines_of(two_run.folder / "evaluated"), expected).value > 90


def test_attention_maps_name_each_side_by_its_own_subwords(two_run):
    page = (two_run.folder / "maps" / "attention.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'application/json">(.*?)</script>', page)
    _, _, cross = json.loads(data)["kinds"]
    for labels, sentence in ((cross["keys"], "ant bee"), (cross["queries"], "альфа")):
        letters = "".join(label.removeprefix("##") for label in labels[:-1])
        assert letters.replace("\u2581", "") == sentence.replace(" ", "")


def test_the_saved_model_answers_as_the_translator(two_run, translator):
    signatures = tf.saved_model.load(str(two_run.folder / "servable" / "1")).signatures
    lines = lines_of(two_run.folder / "test.source")[:4]
    found = [best for best, *_ in translator.translate(lines)]
    expected = [best.text for best in found]
    best = signatures["serving_default"](source=tf.constant(lines))
    assert [text.decode() for text in best["translation"].numpy()] == expected
    np.testing.assert_allclose(best["score"], [one.score for one in found], atol=1e-5)
    ids = translator.subwords.source.encode(lines[:1])
    of_ids = signatures["token_ids"](source_ids=tf.constant(ids))["translation_ids"].numpy()
    assert translator.subwords.target.decode(of_ids[0]) == expected[0]
    scored = signatures["score"](source=tf.constant(lines), target=tf.constant(expected))
    in_python = [one.log_probability for one in translator.score(lines, expected)]
    np.testing.assert_allclose(scored["log_probability"], in_python, rtol=1e-4, atol=1e-4)
