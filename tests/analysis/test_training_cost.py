"""Table 2: the paper's own costs follow from its sources' hours."""

import pytest

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import training_operations
from t2t_repro.analysis.training_cost import (
    TABLE_2,
    Result,
    System,
    Training,
    estimated_operations,
    table_2,
)
from t2t_repro.layers.layer_config import LayerConfig

PUBLISHED = [
    pytest.param(result, id=f"{system.name}, {pair}")
    for system in TABLE_2
    for pair, result in (("de", system.ende), ("fr", system.enfr))
    if result.training
]


def test_time_by_gpus_by_rate():
    assert estimated_operations(Training(0.5, 8, "P100")) == 12 * 3600 * 8 * 9.5e12
    assert estimated_operations(Training(2, 3, "K80", models=4)) == 2 * 86_400 * 3 * 2.8e12 * 4


@pytest.mark.parametrize("result", PUBLISHED)
def test_published_costs_follow_from_the_hours(result):
    # Two digits are printed, and the ensembles' are 8 times the rounded ones.
    assert estimated_operations(result.training) == pytest.approx(result.operations, rel=0.035)


def test_every_published_row_is_there():
    assert len(TABLE_2) == 10
    assert len(PUBLISHED) == 14
    assert [s.enfr.bleu for s in TABLE_2][-2:] == [38.1, 41.8]


def test_counted_from_inside_training_is_less_than_estimated_from_outside():
    tokens = 25_000.0 * 100_000
    shape = ModelShape(40_960, 6, LayerConfig())
    counted = training_operations(shape, tokens, tokens, 25)
    estimated = estimated_operations(Training(0.5, 8, "P100"))
    assert 0.25 < counted / estimated < 0.35


def test_the_table_in_markdown():
    own = System("mine", Result(20.0, 1.25e17, counted=3e16), Result(), "runs/mine")
    lines = table_2([own]).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 2 + 10 + 1
    assert lines[2].startswith("| ByteNet | 23.75 | – | – | – |")
    assert "| Transformer (base model) | 27.3 | 38.1 | 3.3e18 | 3.3e18 |" in lines[10]
    assert lines[-1] == "| mine | 20 | – | 1.2e17 | – | 3.0e16 | – | runs/mine |"
