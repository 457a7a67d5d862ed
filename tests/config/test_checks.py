"""What two configurations have differently."""

import gin

from t2t_repro import experiment  # noqa: F401 (what gin binds)
from t2t_repro.config.checks import (
    configurable,
    differing_bindings,
    differing_values,
    parameters_of,
)
from t2t_repro.config.known_names import configurables


def test_bindings_that_differ():
    there = "# For train:\ntrain.seed = 1\nBatches.max_shapes = 12\nA.files = \\\n  [('a', 'b')]\n"
    now = "train.seed = 2\nA.files = [('a', 'b')]\nTrainingSchedule.steps = 9\n"
    assert differing_bindings(there, now) == [
        "Batches.max_shapes 12 there, not bound now",
        "TrainingSchedule.steps not bound there, 9 now",
        "train.seed 1 there, 2 now",
    ]
    assert differing_bindings(there, there) == []


def test_a_configuration_with_older_names_is_the_same():
    there = (
        "Pace.steps = 9\nPace.report_every = 5\nTrainStep.slices = 2\nTranslator.choose = None\n"
    )
    now = (
        "TrainingSchedule.steps = 9\nTrainingSchedule.log_every = 5\nTrainStep.micro_batches = 2\n"
        "Translator.rerank = None\n"
    )
    assert differing_bindings(there, now) == []


def test_values_that_differ():
    there = {"a": 1, "b": {"c": [1, {"sha": "0" * 99}]}, "d": [1]}
    now = {"a": 1, "b": {"c": [1, {"sha": "1" * 99}]}, "d": [1, 2]}
    assert differing_values(there, now) == [
        f"b.c.1.sha '{'0' * 59}...{'0' * 11}' there, '{'1' * 59}...{'1' * 11}' now",
        "d.1 None there, 2 now",
    ]
    assert differing_values(there, there) == []


def test_names_read_from_the_source_are_those_that_gin_knows():
    names = [name.split(".")[-1] for name in gin.config._REGISTRY._selector_map]
    ours = {name for name in names if configurable(name).__module__.startswith("t2t_repro.")}
    # sacreBLEU's own settings are found when its metrics are imported.
    assert configurables().keys() == ours - {"bleu", "chrf", "ter"}
    for name, parameters in configurables().items():
        # And those that gin does not bind, such as a metric's texts.
        assert [one for one in parameters if one in parameters_of(name)] == [*parameters_of(name)]
