"""Which runs are those of Table 3's rows, and what keeps them from being compared."""

import pytest

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.table_3_runs import doubts, read_runs
from t2t_repro.errors import UserError
from t2t_repro.layers.layer_config import LayerConfig
from tests.analysis.test_ablation_report import run


def test_runs_of_other_sizes_than_their_row_are_named(tmp_path):
    small = run(20.0, shape=ModelShape(8000, 3, LayerConfig(d_model=64, d_ff=256)))
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
