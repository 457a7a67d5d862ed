"""Table 3's runs as CSV: every figure, and the same runs again when it is read."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_repro.analysis.run_record import Evaluation, Run
from t2t_repro.analysis.table_3 import TABLE_3
from t2t_repro.analysis.table_3_csv import MAX_BYTES, as_csv, read_csv
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.evaluation.scores import Score
from tests.analysis.test_ablation_report import seeds


def test_the_csv_has_every_figure_of_every_run_in_full():
    rows = list(csv.DictReader(io.StringIO(as_csv({"base_ende": seeds(20.25, 20.5)}))))
    assert [row["name"] for row in rows] == ["base_ende", *(row.name for row in TABLE_3)]
    base = rows[0]
    assert (base["paper_bleu"], base["our_bleu"], base["our_parameters"]) == (
        "25.8",
        "20.25",
        "65073152",
    )
    assert [(row["seed"], row["our_bleu"]) for row in rows[1:3]] == [("seed_2", "20.5"), ("", "")]
    assert (base["our_tokens_per_second"], base["our_training_operations"]) == ("1234.5", "1.5e+16")
    assert rows[2]["our_steps"] == ""


_figures = st.floats(0, 1e30)
_evaluations = st.builds(
    lambda steps, perplexity, bleu: Evaluation(
        f"checkpoints/step-{steps}",
        perplexity,
        [] if bleu is None else [Score(PAPER_BLEU, bleu)],
    ),
    st.integers(1, 10**6),
    st.floats(1, 1e30),
    st.none() | st.floats(0, 100),
)
_runs = st.builds(
    Run,
    steps=st.integers(1, 10**9),
    parameters=st.integers(1, 10**12),
    operations=_figures,
    tokens_per_second=st.none() | _figures,
    dev=st.none() | _evaluations,
    test=st.none(),
)
_of_seeds = st.dictionaries(st.integers(1, 99).map("seed_{}".format), _runs, min_size=1)
_names = st.sampled_from([row.name for row in TABLE_3])


@given(runs=st.dictionaries(_names, _of_seeds | st.fixed_dictionaries({"model": _runs})))
def test_what_is_read_is_what_was_written(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "table_3.csv"
    path.write_text(as_csv(runs))
    assert read_csv(path) == runs


GOOD = as_csv({"base_ende": seeds(20.25, 20.5)})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "begins with '', expected the header"),
        ("a,b\n", "begins with 'a,b', expected the header"),
        (GOOD.replace("seed_2", "seed_1"), "line 3: seed_1 of base_ende is there twice"),
        (GOOD.replace("seed_2", "seed_x"), "line 3: the seed is 'seed_x'"),
        (GOOD.replace(",base_ende,", ",base,"), "line 2: there is no row 'base'"),
        (GOOD.replace("1.5e+16", "nan"), "line 2: 'nan' is no number"),
        (GOOD.replace("65073152", ""), "line 2: our_parameters is empty"),
        (GOOD.replace(",5.0,20.5", ",0.5,20.5"), "line 3: a perplexity of 0.5"),
        (GOOD.replace("seed_2,1500", "seed_2,many"), "line 3: invalid literal"),
        (GOOD + "more\n", "line 23: zip"),
        (GOOD.replace("seed_2", '"seed_2'), "cannot be read"),
        (GOOD + "\n" * MAX_BYTES, "cannot be read .it has more than 1,048,576 bytes"),
    ],
)
def test_what_report_did_not_write_is_refused_in_one_line(text, complaint, tmp_path):
    path = tmp_path / "table_3.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=complaint) as error:
        read_csv(path)
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="no such file"):
        read_csv(tmp_path / "other.csv")
