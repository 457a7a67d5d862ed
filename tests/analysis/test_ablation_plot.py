"""The plot of Table 3: one row that is far away does not hide the others."""

import pytest

from t2t_repro.analysis.ablation_plot import farthest, write_plot
from t2t_repro.analysis.differences import Difference
from t2t_repro.errors import UserError
from tests.analysis.test_ablation_report import seeds


def test_a_plot_needs_base(tmp_path):
    with pytest.raises(UserError, match="which has no dev BLEU"):
        write_plot({"a_1_head": seeds(18.0)}, tmp_path / "plot.png")


@pytest.mark.parametrize("runs", [(20.0,), (20.0, 20.5, 21.0)])
def test_the_plot_is_a_picture(tmp_path, runs):
    pytest.importorskip("matplotlib")
    write_plot({"base_ende": seeds(*runs), "a_1_head": seeds(18.0)}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_row_that_is_far_away_is_cut():
    alike = {f"row {number}": Difference(1.0, 0.2) for number in range(19)}
    assert farthest(alike) == pytest.approx(1.05 * 2.1)  # the paper's own, of two layers
    near = farthest(alike | {"big": Difference(3.0, 0.2)})
    assert near == pytest.approx(1.05 * 3.2)
    assert farthest(alike | {"big": Difference(-40.0, 0.2)}) < 1.05 * 12 * 1.3
