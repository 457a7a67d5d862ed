"""docs/wmt14.md: what the script prints, of the experiments as their gin files have them."""

from pathlib import Path

import gin
import numpy as np
import pytest
import tensorflow_datasets

import cost
import operations
from t2t_repro.analysis.parameter_count import parameter_count
from t2t_repro.analysis.training_cost import TABLE_2
from t2t_repro.experiment import configure_experiment
from t2t_repro.model.layer_config import LayerConfig
from tests.processes import CHECKOUT
from work import Batch, ModelSize


@pytest.fixture
def _in_the_checkout(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    yield
    gin.clear_config()


def test_the_pages_hold_what_the_script_prints():
    *tables, last = cost.tables().split("\n\n")
    page, summary = (
        (CHECKOUT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("wmt14", "cost")
    )
    for table in tables:
        assert f"\n\n{table}\n\n" in page
    assert f"\n\n{last}\n\n" in summary


@pytest.mark.usefixtures("_in_the_checkout")
@pytest.mark.parametrize("experiment", cost.EXPERIMENTS, ids=lambda one: one.name)
def test_the_sizes_are_those_of_the_gin_file(experiment):
    configure_experiment(f"gin/{experiment.name}.gin", [])
    rows = gin.get_bindings("Transformer").get("vocab_size")
    subwords = gin.query_parameter("SubwordTraining.vocab_size")
    assert experiment.shape.vocab_size == (rows or subwords)
    assert experiment.shape.num_layers == gin.query_parameter("Transformer.num_layers")
    assert experiment.shape.config == LayerConfig()
    assert experiment.steps == gin.query_parameter("TrainingSchedule.steps")
    assert gin.query_parameter("Batches.tokens_per_batch") == cost.TOKENS
    assert gin.query_parameter("TrainStep.micro_batches") == cost.SLICES
    assert gin.query_parameter("Checkpoints.keep") + 2 == cost.KEPT


@pytest.mark.parametrize("experiment", cost.EXPERIMENTS, ids=lambda one: one.name)
def test_the_count_is_six_operations_a_parameter_and_token(experiment):
    """Source and target have as many tokens: each matrix sees one side, the embedding's one."""
    by_hand = 6 * parameter_count(experiment.shape) * cost.TOKENS * experiment.steps
    assert cost.operations(experiment) == pytest.approx(by_hand, rel=0.01)


@pytest.mark.parametrize("experiment", cost.EXPERIMENTS, ids=lambda one: one.name)
def test_the_count_is_that_of_the_benchmarks(experiment):
    vocab_size, layers, config = experiment.shape[:3]
    size = ModelSize(
        vocab_size, layers, config.d_model, config.d_ff, config.num_heads, config.dropout
    )
    ids = np.full((cost.TOKENS // cost.SENTENCE, cost.SENTENCE), 5, np.int32)
    a_step = operations.training_operations(size, Batch(ids, ids))
    # They leave out what a causal mask hides.
    assert cost.operations(experiment) == pytest.approx(a_step * experiment.steps, rel=0.002)


def test_the_paper_s_estimate_is_its_hours_at_what_a_p100_sustains():
    """Footnote 5: 9.5 TFLOPS. Our counts are 30 % and 42 % of these estimates."""
    base, big = (system.ende.operations or 0.0 for system in TABLE_2[-2:])
    assert pytest.approx(big, rel=0.01) == 3.5 * 86_400 * 8 * 9.5e12
    counted = [cost.operations(experiment) for experiment in cost.EXPERIMENTS]
    assert counted == [pytest.approx(0.30 * base, rel=0.02), pytest.approx(0.42 * big, rel=0.02)]


def test_the_paper_s_own_hours_are_within_the_estimate():
    for experiment, published in zip(cost.EXPERIMENTS, (12, 3.5 * 24), strict=True):
        least, most = cost.seconds(experiment, cost.PAPERS)
        assert least < published * 3600 < most


def test_a_machine_of_twice_the_rate_takes_half_as_long():
    base, machine = cost.EXPERIMENTS[0], cost.PAPERS
    once = cost.seconds(base, machine)
    assert once == pytest.approx(
        [2 * one for one in cost.seconds(base, machine._replace(peak=2 * machine.peak))]
    )
    assert once == pytest.approx(
        [2 * one for one in cost.seconds(base, machine._replace(gpus=2 * machine.gpus))]
    )


def test_archives_are_as_large_as_tfds_says():
    lists = Path(tensorflow_datasets.__file__).parent / "url_checksums"
    sizes = {}
    for path in lists.glob("wmt*.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            url, size = line.split("\t")[:2]
            sizes[url.split("/")[-1]] = int(size)
    ours = (
        "training-parallel-europarl-v7.tgz",
        "training-parallel-commoncrawl.tgz",
        "training-parallel-nc-v9.tgz",
        "dev.tgz",
        "training-parallel-un.tgz",
        "training-giga-fren.tar",
    )
    ende, enfr = (corpus.archives for corpus in cost.CORPORA)
    assert list(enfr) == [sizes[name] for name in ours]
    assert ende == enfr[:4]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0.0062, 0.0248), "6.2 to 25 ms"),
        ((0.26, 0.46), "260 to 460 ms"),
        ((600, 2_460), "10 to 41 min"),
        ((345_600, 8e6), "4 to 93 days"),
    ],
)
def test_times_are_said_in_a_unit_of_their_size(numbers, said):
    assert cost._range(*numbers) == said
