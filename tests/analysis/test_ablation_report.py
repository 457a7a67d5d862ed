"""Table 3 with runs in it: every figure in its place."""

from t2t_repro.analysis.ablation_report import as_markdown
from t2t_repro.analysis.run_record import Evaluation, Run
from t2t_repro.analysis.training_cost import own_systems, table_2
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.evaluation.scores import Score


def run(bleu, perplexity=5.0, **changes):
    scores = [Score("BLEU", 99.0), Score(PAPER_BLEU, bleu)]
    dev = Evaluation("checkpoints/step-1500", perplexity, scores)
    return Run(1500, 65_073_152, 1.5e16, 1234.5, dev, None)._replace(**changes)


def seeds(*bleu):
    """Runs of a row that differ in their seed."""
    return {f"seed_{number}": run(value) for number, value in enumerate(bleu, 1)}


def test_published_and_measured_stand_side_by_side():
    runs = {"base_ende": {"model": run(20.25)}, "c_2_layers": {"model": run(18.0, dev=None)}}
    lines = as_markdown(runs).splitlines()
    table = [line for line in lines if line.startswith("| ")][:21]
    assert len({line.count("|") for line in table}) == 1
    assert table[1] == (
        "| base |  | 100,000 | 1,500 | 4.92 | 5.00 | 25.8 | 20.25 | 65 | 65.1 | 1.5e16 | 1 "
        "| checkpoints/step-1500 |"
    )
    assert "| C | N = 2 | 100,000 | 1,500 | 6.11 | – | 23.7 | – | 36 | 65.1 |" in table[8]
    assert "| A | h = 1, d_k = d_v = 512 | 100,000 | – | 5.29 | – | 24.9 | – | 65 | – |" in table[2]


def test_several_seeds_are_their_mean_and_spread():
    runs = {"base_ende": seeds(20.0, 21.0, 22.5)}
    runs["base_ende"]["seed_3"] = runs["base_ende"]["seed_3"]._replace(steps=900)
    runs["base_ende"]["seed_4"] = run(0.0, dev=None)
    line = as_markdown(runs).splitlines()[4]
    assert "| 1,500, 900 | 4.92 | 5.00 ± 0.00 | 25.8 | 21.17 ± 1.26 |" in line
    assert line.endswith("| 1.5e16 | 4 | checkpoints/step-1500 |")


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
