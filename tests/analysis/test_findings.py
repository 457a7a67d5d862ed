"""The paper's findings, judged by runs of several seeds."""

from t2t_repro.analysis.findings import FINDINGS, MEASURES, as_markdown, judge
from t2t_repro.analysis.table_3 import TABLE_3
from t2t_repro.analysis.table_3_runs import BLEU, LOG_PERPLEXITY
from tests.analysis.test_ablation_report import run, seeds

BY_TEXT = {finding.text: finding for finding in FINDINGS}


def verdicts(runs):
    return [
        judge(finding, pair, measure, runs)[2]
        for finding in FINDINGS
        for pair in finding.pairs
        for measure in MEASURES
    ]


def test_the_paper_s_own_figures_show_all_its_findings():
    runs = {
        row.name: {
            f"seed_{seed}": run(row.bleu + 0.01 * seed, row.perplexity + 0.001 * seed)
            for seed in range(3)
        }
        for row in TABLE_3
    }
    assert set(verdicts(runs)) == {"agrees"}
    # Seeds that lie as far apart as rows do show nothing.
    runs = {row.name: seeds(row.bleu - 9, row.bleu, row.bleu + 9) for row in TABLE_3}
    assert {judge(FINDINGS[0], pair, BLEU, runs)[2] for pair in FINDINGS[0].pairs} == {
        "cannot be told apart"
    }


def test_one_run_a_row_shows_nothing():
    runs = {row.name: seeds(row.bleu) for row in TABLE_3}
    assert set(verdicts(runs)) == {"spread unknown"}
    text = "\n".join(as_markdown(runs))
    assert "No row has two runs" in text
    assert "95 %" not in text


def test_the_spread_of_all_rows_judges_two():
    heads = BY_TEXT["A: a single head is worse than the best setting"]
    (pair,) = heads.pairs
    runs = {"base_ende": seeds(20.0), "a_1_head": seeds(19.0)}
    assert judge(heads, pair, BLEU, {}) == ("-0.90", "–", "not measured")
    assert judge(heads, pair, BLEU, {"base_ende": seeds(20.0)})[2] == "not measured"
    assert judge(heads, pair, BLEU, runs) == ("-0.90", "-1.00", "spread unknown")
    # Of a third row: standard deviation 0.1, t with two degrees 4.303.
    runs["c_2_layers"] = seeds(10.0, 10.1, 10.2)
    assert judge(heads, pair, BLEU, runs) == ("-0.90", "-1.00 ± 0.61", "agrees")
    runs["c_2_layers"] = seeds(10.0, 10.2, 10.4)
    assert judge(heads, pair, BLEU, runs)[2] == "cannot be told apart"


def test_perplexity_is_judged_as_the_paper_s_own_differs():
    smoothing = BY_TEXT["D: label smoothing costs perplexity and helps BLEU"]
    (pair,) = smoothing.pairs
    runs = {
        "base_ende": {"seed_1": run(20.0, 9.0), "seed_2": run(20.1, 9.01)},
        "d_label_smoothing_0_0": {"seed_1": run(19.0, 8.0), "seed_2": run(19.1, 8.01)},
    }
    published, here, verdict = judge(smoothing, pair, LOG_PERPLEXITY, runs)
    assert (published, here[:6], verdict) == ("-0.052", "-0.118", "agrees")
    assert judge(smoothing, pair, BLEU, runs)[2] == "agrees"


def test_learned_positions_may_differ_by_half_a_point():
    learned = BY_TEXT["E: learned positions are nearly as good as sinusoids"]
    (pair,) = learned.pairs
    for bleu, verdict in (
        (20.2, "agrees"),
        (19.8, "agrees"),
        (20.5, "cannot be told apart"),
        (21.0, "disagrees"),
        (19.0, "disagrees"),
    ):
        runs = {
            "base_ende": seeds(19.95, 20.0, 20.05),
            "e_learned_positions": seeds(bleu - 0.05, bleu, bleu + 0.05),
        }
        assert judge(learned, pair, BLEU, runs)[2] == verdict


def test_a_line_for_every_comparison_and_the_rule_below():
    runs = {"base_ende": seeds(20.0, 20.4), "a_1_head": seeds(19.0, 19.6)}
    lines = as_markdown(runs)
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + sum(len(finding.pairs) for finding in FINDINGS)
    assert len({line.count("|") for line in table}) == 1
    # Pooled variance (0.08 + 0.18) / 2.
    assert "- BLEU: standard deviation over seeds 0.361 (2 degrees of freedom), 0.424 in" in (
        "\n".join(lines)
    )
