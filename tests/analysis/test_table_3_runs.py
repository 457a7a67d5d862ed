"""Which runs are those of Table 3's rows, and what keeps them from being compared."""

import pytest

from t2t_repro.analysis.table_3_runs import doubts, read_runs
from t2t_repro.errors import UserError
from tests.analysis.test_ablation_report import run, seeds
from tests.analysis.test_run_record import write_run


def test_runs_of_other_sizes_than_their_row_are_named(tmp_path):
    small = run(20.0, parameters=900_000)
    as_published = {"model": run(20.0)}
    assert not [*doubts(tmp_path, {"base_ende": as_published, "a_1_head": as_published})]
    runs = {"base_ende": {"seed_1": small, "seed_2": small}, "a_1_head": as_published}
    assert [*doubts(tmp_path, runs)] == [
        "2 of 3 runs are not the paper's models, by their parameters (base_ende 0.9 million in "
        "place of 65): compare them with each other, not with the paper's columns"
    ]
    names = ("base_ende", "a_1_head", "a_4_heads", "b_d_k_16")
    (text,) = doubts(tmp_path, {name: {"model": small} for name in names})
    assert "place of 65; ...)" in text


def test_seeds_of_other_settings_are_named(tmp_path):
    for seed, dropout in ((1, 0.1), (2, 0.2)):
        folder = tmp_path / "base_ende" / f"seed_{seed}" / "model"
        folder.mkdir(parents=True)
        (folder / "config.gin").write_text(f"LayerConfig.dropout = {dropout}\n")
    (text,) = doubts(tmp_path, {"base_ende": {"seed_1": run(20.0), "seed_2": run(20.0)}})
    assert "seed_1/model with another seed: LayerConfig.dropout 0.1 there, 0.2 now" in text


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no run of Table 3, expected folders such as"):
        read_runs(tmp_path)


def test_runs_of_before_count_where_the_folder_has_none_of_them(tmp_path):
    def there(*names):
        for name in names:
            write_run(tmp_path / name / "model")

    there("base_ende/seed_2", "base_ende/seed_10", "a_1_head")
    earlier = {"base_ende": seeds(20.0, 21.0, 22.0), "big_ende": {"model": run(26.0)}}
    runs = read_runs(tmp_path, earlier)
    assert [*runs] == ["base_ende", "a_1_head", "big_ende"]
    assert [*runs["base_ende"]] == ["seed_1", "seed_2", "seed_3", "seed_10"]
    of_before = [run for run in runs["base_ende"].values() if run.dev]
    assert of_before == [earlier["base_ende"][name] for name in ("seed_1", "seed_3")]
    assert read_runs(tmp_path / "none", earlier) == earlier
    with pytest.raises(UserError, match="a_1_head has a run without a seed, and others with"):
        read_runs(tmp_path, {"a_1_head": seeds(20.0)})
