"""What an experiment's dev evaluation gives to TensorBoard."""

import json
from types import SimpleNamespace
from typing import Any

import gin
import numpy as np
import pytest

from t2t_repro import experiment
from t2t_repro.attention.pictures import attention_images
from t2t_repro.errors import UserError
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import bleu, ter
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.dev_evaluation import DevEvaluation
from t2t_repro.training.workers import Workers
from tests.evaluation.untranslated import leave_untranslated
from tests.token_stores import write_token_store

SOURCE = ["the red bird", "a tree", "the bird sees a tree"]
TARGET = ["bird red the", "tree a", "tree a sees bird the"]
ALONE = Workers()


def scores(evaluation):
    return evaluation.scores([evaluation.share()])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    SubwordTraining(vocab_size=280).train(SOURCE * 9, folder / "subwords.model")
    subwords = SentencePieceModel(folder / "subwords.model")
    pairs = zip(subwords.encode(SOURCE), subwords.encode(TARGET), strict=True)
    store = write_token_store(folder / "dev", pairs, vocab_size=subwords.size)
    return SimpleNamespace(
        subwords=shared(subwords),
        text=lambda split: (SOURCE, TARGET),
        store=lambda split: store,
        corpora=lambda split: {},
    )


@pytest.fixture(scope="module")
def model(data):
    config = LayerConfig(d_model=8, d_ff=8, num_heads=2)
    model = Transformer(data.subwords.target.size, num_layers=2, config=config)
    model.build()
    return model


@pytest.fixture(autouse=True)
def _nothing_is_decoded(monkeypatch):
    """Scores take a beam search; they are tested where they are made."""
    leave_untranslated(monkeypatch)


def test_no_attention_is_drawn_unless_asked_for(model, data):
    assert scores(DevEvaluation(model, data, ALONE, sentences=1)).images == []


def test_a_dev_sentence_s_attention_is_drawn_with_the_weights_of_the_time(model, data):
    pytest.importorskip("matplotlib")
    gin.parse_config("DevEvaluation.images = @attention_images\nattention_images.sentence = 3")
    # The sentence need not be among those that are translated.
    evaluation = DevEvaluation(model, data, ALONE, sentences=1)
    first = dict(scores(evaluation).images)
    assert list(first) == ["attention/encoder", "attention/decoder", "attention/cross"]
    assert all(pixels.dtype == np.uint8 and pixels.shape[2] == 3 for pixels in first.values())
    table = model.embedding.table
    table.assign(table * 10)
    second = dict(scores(evaluation).images)
    for name, pixels in first.items():
        assert pixels.shape == second[name].shape
        assert (pixels != second[name]).any()


@pytest.mark.parametrize("number", [0, 4, -1])
def test_the_sentence_is_one_of_the_dev_set(model, data, number):
    pytest.importorskip("matplotlib")
    with pytest.raises(
        UserError,
        match=rf"attention_images\.sentence is {number}, expected an integer at least 1",
    ):
        attention_images(model, data, number)


def test_matplotlib_is_missed_before_training(model, data, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="matplotlib is not installed"):
        DevEvaluation(model, data, ALONE, images=attention_images)


def test_a_sentence_that_is_too_long_is_named(model, data):
    pytest.importorskip("matplotlib")
    long: Any = SimpleNamespace(**{**vars(data), "text": lambda split: (["a " * 200], ["a"])})
    message = r"attention_images\.sentence is 1: the source has 201 subwords"
    with pytest.raises(UserError, match=message):
        attention_images(model, long)


def test_what_cannot_be_meant_is_refused_before_training(model, data):
    with pytest.raises(
        UserError, match=r"^DevEvaluation\.sentences is 0, expected an integer at least 1"
    ):
        DevEvaluation(model, data, ALONE, sentences=0)


def test_a_metric_gives_a_score(model, data):
    mean: Any = lambda texts, references, sources: 3.5  # noqa: E731
    with pytest.raises(UserError, match=r"DevEvaluation\.metric gave 3\.5, expected a Score"):
        scores(DevEvaluation(model, data, ALONE, mean))


def test_scores_say_which_way_their_metric_goes(model, data):
    for metric, name, higher_is_better in [(ter, "TER", False), (bleu, "BLEU", True)]:
        found = scores(DevEvaluation(model, data, ALONE, metric))
        assert (found.metric, found.higher_is_better) == (name, higher_is_better)


def mixed(data):
    """The first sentence is one corpus's, the others another's."""
    parts = {"dev.a": slice(0, 1), "dev.b": slice(1, None), "dev": slice(None)}
    return SimpleNamespace(
        subwords=data.subwords,
        text=lambda split: (SOURCE[parts[split]], TARGET[parts[split]]),
        store=data.store,
        corpora=lambda split: {"a": range(1), "b": range(1, 3)},
    )


def test_every_corpus_of_a_mixture_is_scored_by_itself_too(model, data):
    plain, found = (scores(DevEvaluation(model, one, ALONE)) for one in (data, mixed(data)))
    assert found.nll == pytest.approx(plain.nll, rel=1e-6)
    assert (found.score, list(plain.corpora)) == (plain.score, [])
    store = data.store("dev")
    for corpus, name, own in zip(found.corpora, "ab", (range(1), range(1, 3)), strict=True):
        assert corpus.name == name
        nll = HeldOutLoss(model, store.part(own)).nll()
        assert corpus.nll == pytest.approx(nll, rel=1e-6)
        assert abs(nll - plain.nll) > 1e-4
        translations = [SOURCE[i] for i in own]
        assert corpus.score == bleu(translations, [TARGET[i] for i in own]).value
    assert [line.count(" | ") for line in found.samples.splitlines()] == [2, 0, 2, 2, 2]
    # So many of each, not of all together.
    few = scores(DevEvaluation(model, mixed(data), ALONE, sentences=1)).samples.splitlines()
    assert few == [line for i, line in enumerate(found.samples.splitlines()) if i != 4]


def test_workers_that_share_the_dev_set_find_what_one_finds(model, data):
    """Also where there are more of them than sentences."""
    expected = scores(DevEvaluation(model, mixed(data), ALONE))
    for count in (2, 4):
        members: list[Any] = [
            SimpleNamespace(index=i, count=count, is_chief=i == 0) for i in range(count)
        ]
        found = [DevEvaluation(model, mixed(data), one) for one in members]
        shares = [json.loads(json.dumps(evaluation.share())) for evaluation in found]
        assert sorted(line for share in shares for line in share[0]) == sorted(SOURCE)
        for evaluation in found:
            together = evaluation.scores(shares)
            assert together.nll == pytest.approx(expected.nll, rel=1e-6)
            assert (together.score, together.samples) == (expected.score, expected.samples)
            for one, other in zip(together.corpora, expected.corpora, strict=True):
                assert one.nll == pytest.approx(other.nll, rel=1e-6)
                assert one.score == other.score


def test_what_train_is_given_is_read_without_making_the_rest():
    lines = ["train.callbacks = [@BeamSearch()]", "BeamSearch.beam_size = 0", "train.seed = %seed"]
    gin.parse_config([*lines, "seed = 7"])
    assert experiment._bound_of_train("seed", 1) == 7
    gin.clear_config()
    assert experiment._bound_of_train("seed", 1) == 1
