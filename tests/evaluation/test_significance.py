"""Intervals and p-values are sacreBLEU's own, and a table of several systems loses nothing."""

import json
import os
import random
import subprocess
import sys

import pytest

from t2t_repro.evaluation.paper_bleu import paper_bleu
from t2t_repro.evaluation.scores import Score, bleu, exact_match, ter
from t2t_repro.evaluation.significance import Estimate, System, as_json, as_markdown, compare

TEXT = "ein Hund läuft im Park . und die Katze schläft auf dem Sofa , weil es regnet"
WORDS = TEXT.split()
SYSTEMS = ["base", "like", "better"]


def noisy(line, rate, draw):
    return " ".join(draw.choice(WORDS) if draw.random() < rate else word for word in line.split())


@pytest.fixture(scope="module")
def texts():
    """Sixty references, translations: wrong, as wrong, and less so; and other references."""
    draw = random.Random(1)
    reference = [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(60)]
    rates = zip([*SYSTEMS, "other"], (0.3, 0.3, 0.1, 0.1), strict=True)
    noise = {name: [noisy(line, rate, draw) for line in reference] for name, rate in rates}
    return {"reference": reference, **noise}


@pytest.fixture(scope="module")
def folder(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, lines in texts.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def sacrebleu(folder, *arguments, **environment):
    command = [sys.executable, "-m", "sacrebleu", *arguments]
    environment = {**os.environ, "NO_COLOR": "1", **environment}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def compared(texts, metric, *options):
    scores = [
        metric(texts[name], list(zip(texts["reference"], texts["other"], strict=True)))
        for name in SYSTEMS
    ]
    return compare(scores, *options)


@pytest.mark.parametrize(
    ("flag", "test", "given"),
    [("--paired-ar", "randomisation", {}), ("--paired-bs", "bootstrap", {"SACREBLEU_SEED": "7"})],
)
def test_paired_tests_are_sacrebleu_s_to_the_last_digit(
    texts, folder, flag, test, given, monkeypatch
):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    several = ["reference", "other", "-i", *SYSTEMS]
    printed = json.loads(sacrebleu(folder, *several, "-m", "bleu", flag, **given))
    found = compared(texts, bleu, test)
    for row, own in zip(printed, found, strict=True):
        expected = (row["BLEU"][name] for name in ("score", "mean", "ci", "p_value"))
        assert (own.score.value, own.mean, own.half_width, own.p_value) == tuple(expected)
    assert found[0].p_value is None
    assert found[1].p_value > 0.05
    assert found[2].p_value < 0.05
    seed = given.get("SACREBLEU_SEED", "12345")
    kind = "ar:10000" if "ar" in flag else "bs:1000"
    assert f"nrefs:2|{kind}" in found[2].score.signature
    assert f"seed:{seed}|" in found[2].score.signature


def test_an_interval_of_one_system_is_sacrebleu_s(texts, folder):
    files = ["reference", "-i", "like"]
    printed = json.loads(sacrebleu(folder, *files, "-m", "bleu", "ter", "-ci", "--width=4"))
    for metric, own in zip((bleu, ter), printed, strict=True):
        found = compare([metric(texts["like"], texts["reference"])])[0]
        assert f"{found.mean:.4f}" == f"{own['confidence_mean']:.4f}"
        assert f"{found.half_width:.4f}" == f"{own['confidence_var']:.4f}"
        assert found.score.signature == own["signature"]
        assert found.p_value is None


def test_by_randomisation_there_are_intervals_where_they_are_asked_for(texts):
    plain = compared(texts, bleu, "randomisation", 100)
    asked = compared(texts, bleu, "randomisation", 100, True)
    assert {found.mean for found in plain} == {None}
    assert all(found.half_width > 0 for found in asked)
    assert [found.p_value for found in plain] == [found.p_value for found in asked]


def test_a_score_of_words_that_were_tokenised_here_keeps_its_signature(texts):
    found = compared(texts, paper_bleu)
    assert "|bs:1000|seed:12345|" in found[1].score.signature
    assert "|moses:de|" in found[1].score.signature
    assert found[2].p_value < 0.05


def test_of_a_metric_that_is_not_sacrebleu_s_there_is_the_score_alone(texts):
    scores = [exact_match(texts[name], texts["reference"]) for name in SYSTEMS]
    assert compare(scores) == list(map(Estimate, scores))


BLEU = Score("BLEU", 41.018, "tok:13a")
TER = Score("TER", 40.0, "tok:tercom", higher_is_better=False)
MINE = Score("mine", 1.0)
FIRST = [Estimate(BLEU._replace(value=39.0), 39.0, 1.5), Estimate(TER, 40.0, 2.0), Estimate(MINE)]
SECOND = [Estimate(BLEU, 41.0, 1.25, 0.04996), Estimate(TER, 40.0, 2.0, 0.05), Estimate(MINE)]
TABLE = [System("a|b", [], None, FIRST), System("model", [], 3.5, SECOND)]


def test_markdown_has_a_row_a_system_and_a_signature_a_metric():
    lines = as_markdown(TABLE, has_baseline=True)
    assert lines[:4] == [
        "| system | BLEU ↑ | TER ↓ | mine ↑ |",
        "|---|---:|---:|---:|",
        "| a¦b (baseline) | 39.00 (μ = 39.00 ± 1.50) | 40.00 (μ = 40.00 ± 2.00) | 1.00 |",
        "| model | 41.02 (μ = 41.00 ± 1.25) p = 0.0500* | 40.00 (μ = 40.00 ± 2.00) p = 0.0500 "
        "| 1.00 |",
    ]
    # Only of the last there is more to say: it has no p-value.
    assert lines[-3:-1] == ["- BLEU: `tok:13a`", "- TER: `tok:tercom`"]
    assert lines[-1].startswith("- mine: no significance test")
    alone = as_markdown(TABLE[:1], has_baseline=False)
    assert alone[-2:] == lines[-3:-1]


def test_a_system_that_does_as_the_baseline_does_has_p_1(texts):
    # Of sacreBLEU it has the least p-value there is.
    same = [bleu(texts["like"], texts["reference"])] * 2
    assert [found.p_value for found in compare(same)] == [None, 1.0]


def test_json_is_unrounded():
    baseline, model = json.loads("".join(as_json(TABLE, has_baseline=True)))
    assert [one["is_baseline"] for one in (baseline, model)] == [True, False]
    assert baseline["system"] == "a|b"
    assert "perplexity" not in baseline
    assert model["perplexity"] == 3.5
    figures = {"mean": 40.0, "half_width": 2.0, "p_value": 0.05}
    assert model["scores"][1] == TER.as_dict() | figures
    assert model["scores"][0]["value"] == 41.018
