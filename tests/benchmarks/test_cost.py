"""docs/cost.md: what the script prints, of the experiments as their gin files have them."""

import gin
import pytest

import cost
from t2t_repro.experiment import configure_experiment
from t2t_repro.layers.layer_config import LayerConfig
from tests.processes import CHECKOUT


@pytest.fixture
def _in_the_checkout(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    yield
    gin.clear_config()


def test_the_page_holds_what_the_script_prints():
    page = (CHECKOUT / "docs" / "cost.md").read_text(encoding="utf-8")
    for table in cost.tables().split("\n\n"):
        assert f"\n\n{table}\n\n" in page


@pytest.mark.usefixtures("_in_the_checkout")
@pytest.mark.parametrize("experiment", cost.EXPERIMENTS, ids=lambda one: one.name)
def test_the_sizes_are_those_of_the_gin_file(experiment):
    configure_experiment(f"gin/{experiment.name}.gin", [])
    rows = gin.get_bindings("Transformer").get("vocab_size")
    subwords = gin.query_parameter("SubwordTraining.vocab_size")
    assert experiment.shape.vocab_size == (rows or subwords)
    assert experiment.shape.num_layers == gin.query_parameter("Transformer.num_layers")
    assert experiment.shape.config == LayerConfig()
    assert experiment.steps == gin.query_parameter("Pace.steps")
    assert gin.query_parameter("Batches.tokens_per_batch") == cost.TOKENS
    assert gin.query_parameter("TrainStep.slices") == cost.SLICES
    assert gin.query_parameter("Checkpoints.keep") + 2 == cost.KEPT


def test_the_paper_s_own_hours_are_within_the_estimate():
    p100 = cost.MACHINES[0]
    for experiment, published in zip(cost.EXPERIMENTS, (12, 3.5 * 24), strict=True):
        least, most = cost.hours(experiment, p100, 8)
        assert least < published < most


def test_a_machine_of_twice_the_rate_takes_half_as_long():
    machine = cost.MACHINES[0]
    once = cost.hours(cost.EXPERIMENTS[0], machine, 1)
    twice = cost.hours(cost.EXPERIMENTS[0], machine._replace(peak=2 * machine.peak), 1)
    assert once == pytest.approx([2 * hours for hours in twice])
    assert once == pytest.approx([2 * n for n in cost.hours(cost.EXPERIMENTS[0], machine, 2)])
