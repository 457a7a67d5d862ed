"""Several systems in one table, of which nothing is lost."""

import json

from t2t_repro.evaluation.score_table import Row, as_json, as_markdown
from t2t_repro.evaluation.scores import Score
from t2t_repro.evaluation.significance import Estimate

BLEU = Score("BLEU", 41.018, "tok:13a")
TER = Score("TER", 40.0, "tok:tercom", higher_is_better=False)
MINE = Score("mine", 1.0)
ROWS = [
    Row(
        "a|b",
        [Estimate(BLEU._replace(value=39.0), 39.0, 1.5), Estimate(TER, 40.0, 2.0), Estimate(MINE)],
    ),
    Row(
        "model",
        [Estimate(BLEU, 41.0, 1.25, 0.04996), Estimate(TER, 40.0, 2.0, 0.05), Estimate(MINE)],
        3.5,
    ),
]


def test_markdown_has_a_row_a_system_and_says_how_all_was_computed():
    assert as_markdown(ROWS, has_baseline=True) == [
        "| system | BLEU ↑ | TER ↓ | mine ↑ |",
        "|---|---:|---:|---:|",
        "| a¦b (baseline) | 39.00 (μ = 39.00 ± 1.50) | 40.00 (μ = 40.00 ± 2.00) | 1.00 |",
        "| model | 41.02 (μ = 41.00 ± 1.25) p = 0.0500* | 40.00 (μ = 40.00 ± 2.00) p = 0.0500 "
        "| 1.00 |",
        "",
        "↑ higher is better, ↓ lower is. μ ± : mean of bootstrap samples, and half of their 95 % "
        "interval. p: probability of a difference from the baseline at least as large by chance; "
        "* below 0.05.",
        "",
        "- BLEU: `tok:13a`",
        "- TER: `tok:tercom`",
        "- mine: no significance test: not one of sacreBLEU's metrics",
    ]


def test_a_system_that_does_as_the_baseline_does_has_no_star():
    # Of sacreBLEU it has the least p-value there is.
    rows = [Row("a", [Estimate(BLEU)]), Row("b", [Estimate(BLEU, p_value=0.001)])]
    assert as_markdown(rows, has_baseline=True)[3] == "| b | 41.02 p = 0.0010 |"


def test_json_is_unrounded():
    baseline, model = json.loads("".join(as_json(ROWS, has_baseline=True)))
    assert (baseline["system"], baseline["is_baseline"], model["is_baseline"]) == (
        "a|b", True, False,
    )  # fmt: skip
    assert "perplexity" not in baseline
    assert model["perplexity"] == 3.5
    assert model["scores"][1] == {
        "name": "TER",
        "value": 40.0,
        "signature": "tok:tercom",
        "higher_is_better": False,
        "mean": 40.0,
        "half_width": 2.0,
        "p_value": 0.05,
    }
    assert model["scores"][0]["value"] == 41.018
