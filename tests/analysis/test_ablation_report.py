"""Table 3 with runs in it: every figure in its place, and the findings judged by them."""

import csv
import io

import pytest

from t2t_repro.analysis.ablation_report import (
    FINDINGS,
    as_csv,
    as_markdown,
    judge,
    other_sizes,
    read_runs,
    write_plot,
)
from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.run_record import Evaluation, Run
from t2t_repro.analysis.table_3 import TABLE_3
from t2t_repro.analysis.training_cost import own_systems, table_2
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.evaluation.scores import Score
from t2t_repro.layers.layer_config import LayerConfig

SHAPE = ModelShape(40_960, 6, LayerConfig())


def run(bleu, perplexity=5.0, **changes):
    scores = [Score("BLEU", 99.0), Score(PAPER_BLEU, bleu)]
    dev = Evaluation("checkpoints/step-1500", perplexity, scores)
    return Run(1500, SHAPE, 1.5e16, 1234.5, dev, None)._replace(**changes)


def test_published_and_measured_stand_side_by_side():
    lines = as_markdown({"base_ende": run(20.25), "c_2_layers": run(18.0, dev=None)}).splitlines()
    table = [line for line in lines if line.startswith("| ")][:21]
    assert len({line.count("|") for line in table}) == 1
    assert table[1] == (
        "| base |  | 100,000 | 1,500 | 4.92 | 5.00 | 25.8 | 20.2 | 65 | 65.1 | 1.5e16 | 1,234 "
        "| checkpoints/step-1500 |"
    )
    assert "| C | N = 2 | 100,000 | 1,500 | 6.11 | – | 23.7 | – | 36 | 65.1 |" in table[8]
    assert "| A | h = 1, d_k = d_v = 512 | 100,000 | – | 5.29 | – | 24.9 | – | 65 | – |" in table[2]


def test_findings_are_judged_by_bleu_as_the_paper_measured_it():
    by_text = {finding.text: finding for finding in FINDINGS}
    heads = by_text["A: a single head is worse than the best setting"]
    assert judge(heads, {})[1:] == ("not measured", "–")
    assert judge(heads, {"base_ende": run(20.0)})[1] == "not measured"
    runs = {"base_ende": run(20.0), "a_1_head": run(18.5)}
    assert judge(heads, runs)[1:] == ("agrees", "base_ende − a_1_head = +1.50")
    assert judge(heads, runs | {"a_1_head": run(20.5)})[1] == "no"

    depth = by_text["B: a smaller d_k is worse"]
    runs = {"base_ende": run(20.0), "b_d_k_16": run(19.0), "b_d_k_32": run(20.1)}
    assert judge(depth, runs)[1] == "2 of 3"

    learned = by_text["E: learned positions are nearly as good as sinusoids"]
    for bleu, verdict in ((20.4, "agrees"), (19.6, "agrees"), (21.0, "no"), (19.0, "no")):
        runs = {"base_ende": run(20.0), "e_learned_positions": run(bleu)}
        assert judge(learned, runs)[1] == verdict


def test_the_paper_s_own_figures_show_all_its_findings():
    runs = {row.name: run(row.bleu) for row in TABLE_3}
    assert {judge(finding, runs)[1] for finding in FINDINGS} == {"agrees"}


def test_the_csv_has_every_figure_in_full():
    rows = list(csv.DictReader(io.StringIO(as_csv({"base_ende": run(20.25)}))))
    assert [row["name"] for row in rows] == [row.name for row in TABLE_3]
    base = rows[0]
    assert (base["paper_bleu"], base["our_bleu"], base["our_parameters"]) == (
        "25.8",
        "20.25",
        "65073152",
    )
    assert (base["our_tokens_per_second"], base["our_training_operations"]) == ("1234.5", "1.5e+16")
    assert rows[1]["our_bleu"] == rows[1]["our_steps"] == ""


def test_runs_of_other_sizes_than_their_row_are_named():
    small = run(20.0, shape=ModelShape(8000, 3, LayerConfig(d_model=64, d_ff=256)))
    as_published = run(20.0)
    assert other_sizes({"base_ende": as_published, "a_1_head": as_published}) is None
    assert other_sizes({"base_ende": small, "a_1_head": as_published}) == (
        "1 of 2 runs are not the paper's models, by their parameters (base_ende 0.9 million in "
        "place of 65): compare them with each other, not with the paper's columns"
    )
    names = ("base_ende", "a_1_head", "a_4_heads", "b_d_k_16")
    assert "place of 65; ...)" in (other_sizes(dict.fromkeys(names, small)) or "")


def test_a_plot_needs_base(tmp_path):
    with pytest.raises(UserError, match="which has no dev BLEU"):
        write_plot({"a_1_head": run(18.0)}, tmp_path / "plot.png")


def test_the_plot_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    write_plot({"base_ende": run(20.0), "a_1_head": run(18.0)}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no run of Table 3, expected folders such as"):
        read_runs(tmp_path)


def test_own_runs_in_table_2():
    test = Evaluation("averaged/step-1500", 5.0, [Score(PAPER_BLEU, 27.123)])
    systems = own_systems(
        {"base_ende": run(1.0, test=test), "big_enfr": run(1.0), "big_ende": None}
    )
    lines = table_2(systems).splitlines()[-2:]
    assert lines == [
        "| base_ende, 1,500 steps | 27.12 | – | – | – | 1.5e16 | – | this run |",
        "| big_enfr, 1,500 steps | – | – | – | – | – | 1.5e16 | this run |",
    ]
