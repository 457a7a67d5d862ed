"""The dev evaluation: scores of all and of each corpus, on any number of workers; pictures."""

import functools
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_images import attention_images
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import bleu, ter
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.dev_evaluation import DevEvaluation
from t2t_repro.training.settings import DevEvaluationSettings
from t2t_repro.training.workers import Workers
from tests.evaluation.untranslated import Untranslated
from tests.token_stores import write_token_store

SOURCE = ["the red bird", "a tree", "the bird sees a tree"]
TARGET = ["bird red the", "tree a", "tree a sees bird the"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    subwords = SubwordTraining(vocab_size=280).train(SOURCE * 9, folder / "subwords.model")
    pairs = zip(subwords.encode(SOURCE), subwords.encode(TARGET), strict=True)
    store = write_token_store(folder / "dev", pairs, vocab_size=subwords.size)
    return SimpleNamespace(
        subwords=shared(subwords),
        text=lambda split: (SOURCE, TARGET),
        store=lambda split: store,
        corpora=lambda split: {},
    )


@pytest.fixture(scope="module")
def mixed(data):
    """The same data, the first sentence of one corpus, the others of another."""
    parts = {"dev.a": slice(0, 1), "dev.b": slice(1, None), "dev": slice(None)}
    return SimpleNamespace(
        subwords=data.subwords,
        text=lambda split: (SOURCE[parts[split]], TARGET[parts[split]]),
        store=data.store,
        corpora=lambda split: {"a": range(1), "b": range(1, 3)},
    )


@pytest.fixture(scope="module")
def evaluation(data):
    """Makes a DevEvaluation of untranslated sentences."""
    config = LayerConfig(d_model=8, d_ff=8, num_heads=2)
    model = Transformer(data.subwords.target.size, num_layers=1, config=config)
    model.build()

    def make(data=data, workers=None, **settings):
        translator: Any = Untranslated()
        made: Any = DevEvaluation(
            model, translator, data, workers or Workers(), DevEvaluationSettings(**settings)
        )
        made.model = model
        return made

    return make


def scores(evaluation):
    return evaluation.scores([evaluation.compute_share()])


def test_attention_is_drawn_where_asked_for_with_the_current_weights(evaluation):
    pytest.importorskip("matplotlib")
    share = (SOURCE[:1], [1.0], [1.0])
    assert evaluation(sentences=1).scores([share]).images == []
    # The sentence need not be among those that are translated.
    images = functools.partial(attention_images, sentence=3)
    drawing = evaluation(sentences=1, images=images)
    first = dict(drawing.scores([share]).images)
    assert list(first) == ["attention/encoder", "attention/decoder", "attention/cross"]
    assert all(pixels.dtype == np.uint8 and pixels.shape[2] == 3 for pixels in first.values())
    table = drawing.model.embedding.table
    table.assign(table * 10)
    second = dict(drawing.scores([share]).images)
    table.assign(table / 10)
    assert all((pixels != second[name]).any() for name, pixels in first.items())


def test_a_metric_says_which_way_it_goes(evaluation):
    share = (SOURCE, [6.0], [3.0])
    for metric, name, higher_is_better in [(ter, "TER", False), (bleu, "BLEU", True)]:
        result = evaluation(metric=metric).scores([share])
        assert result.nll == 2.0
        assert (result.metric, result.higher_is_better) == (name, higher_is_better)


def test_every_corpus_of_a_mixture_is_scored_by_itself_too(evaluation, data, mixed):
    plain, result = (scores(evaluation(one)) for one in (data, mixed))
    assert result.nll == pytest.approx(plain.nll, rel=1e-6)
    assert (result.score, list(plain.corpora)) == (plain.score, [])
    model = evaluation().model
    for corpus, name, own in zip(result.corpora, "ab", (range(1), range(1, 3)), strict=True):
        assert corpus.name == name
        nll = HeldOutLoss(model, data.store("dev").part(own)).nll()
        assert corpus.nll == pytest.approx(nll, rel=1e-6)
        assert abs(nll - plain.nll) > 1e-4
        source, target = ([side[i] for i in own] for side in (SOURCE, TARGET))
        assert corpus.score == bleu(source, target, source).value
    lines = result.samples.splitlines()
    assert len(lines) == 5
    # So many of each corpus, not of all together.
    few = evaluation(mixed, sentences=1).scores([(SOURCE[:2], [1.0, 1.0], [1.0, 1.0])])
    assert few.samples.splitlines() == lines[:4]


def shared_out(evaluation, data, count, **options):
    """The evaluations of so many workers, and their shares, as they are sent to each other."""
    workers: list[Any] = [
        SimpleNamespace(index=i, count=count, is_chief=i == 0) for i in range(count)
    ]
    evaluations = [evaluation(data, one) for one in workers]
    shares = [json.loads(json.dumps(one.compute_share(**options))) for one in evaluations]
    assert sorted(line for share in shares for line in share[0]) == sorted(SOURCE)
    return evaluations, shares


@pytest.mark.parametrize("count", [1, 5])
def test_a_preview_translates_three_sentences_and_has_the_nll_of_all(evaluation, data, count):
    twice = SimpleNamespace(**vars(data) | {"text": lambda split: (SOURCE * 2, TARGET * 2)})
    evaluations, shares = shared_out(evaluation, twice, count, preview=True)
    preview = evaluations[0].scores(shares)
    assert preview.nll == pytest.approx(scores(evaluation()).nll, rel=1e-6)
    assert preview.metric == "BLEU of 3 sentences"
    assert preview.score == bleu(SOURCE, TARGET, SOURCE).value
    assert preview.samples.splitlines()[2:] == [
        f"| {source} | {source} | {target} |" for source, target in zip(SOURCE, TARGET, strict=True)
    ]


def test_workers_that_share_the_dev_set_have_the_scores_of_one(evaluation, mixed):
    """Even more of them than sentences."""
    expected = scores(evaluation(mixed))
    evaluations, shares = shared_out(evaluation, mixed, count=len(SOURCE) + 1)
    for one in evaluations:
        together = one.scores(shares)
        assert together.nll == pytest.approx(expected.nll, rel=1e-6)
        assert (together.score, together.samples) == (expected.score, expected.samples)
        for ours, theirs in zip(together.corpora, expected.corpora, strict=True):
            assert ours.nll == pytest.approx(theirs.nll, rel=1e-6)
            assert ours.score == theirs.score
