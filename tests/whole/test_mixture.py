"""Two corpora in one run, through the command lines: the tag says what is wanted."""

import re

import pytest

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.loading import load_translator
from tests.whole.conftest import MIXED_STEPS
from tests.whole.runs import CYRILLIC


def found_in(log, pattern):
    found = re.search(pattern, log)
    assert found, log
    return found[1]


def test_the_log_says_the_weights_and_scores_every_corpus(mixed_run):
    log = mixed_run.outcomes["begun"].err
    assert re.search(r"; copies 24\.94% of sentences \(100\), .*; cyrillic 75\.06% .*\(301\)", log)
    lengths = PreparedData(mixed_run.folder / "data" / "prepared").store("dev").target_lengths
    copies, cyrillic, together = (
        float(found_in(log, rf"step {MIXED_STEPS[0]}: {name} nll ([\d.]+)"))
        for name in (r"dev\.copies", r"dev\.cyrillic", "dev")
    )
    sums = lengths[:10].sum() * copies, lengths[10:].sum() * cyrillic
    assert together == pytest.approx(sum(sums) / lengths.sum(), abs=2e-4)
    # There is no test set to score.
    assert log.rstrip().endswith("--split=dev")


def test_other_weights_go_on_with_the_same_data_and_say_so(mixed_run):
    log = mixed_run.outcomes["other weights"].err
    assert "cleaning" not in log
    assert "Mixture.weights" in log
    assert "the rest of this one is reshuffled" in log


def test_the_tag_decides(mixed_run):
    translator = load_translator(mixed_run.folder / "model")
    assert translator.settings.trained_length == 40
    pairs = (mixed_run.folder / "copies.train.tsv").read_text().splitlines()
    lines = [pair.split("\t")[0].split() for pair in pairs[:10]]
    for tag, meaning in (("<copy>", {word: word for word in CYRILLIC}), ("<cyr>", CYRILLIC)):
        given = [f"{tag} {' '.join(line)}" for line in lines]
        found = [best.text.split() for best, *_ in translator.translate(given)]
        latin = [word.isascii() for line in found for word in line]
        assert latin == [tag == "<copy>"] * len(latin)
        # So short a training gets some words wrong.
        right = [[meaning[word] for word in line] for line in lines]
        assert sum(one == other for one, other in zip(found, right, strict=True)) >= 5
