"""What two configurations have differently."""

from t2t_repro.config.checks import differing_values
from t2t_repro.config.gin_text import bindings_in


def test_a_configuration_with_older_names_is_the_same():
    there = (
        "Pace.steps = 9\nPace.report_every = 5\nTrainStep.slices = 2\nTranslator.choose = None\n"
        "prepare.subwords = @a/GivenSubwords()\na/GivenSubwords.model_dir = 'm'\n"
        "Translator.forbid_pad = True\nTranslator.forbidden_ids = (2,)\n"
    )
    now = (
        "TrainingSchedule.steps = 9\nTrainingSchedule.log_every = 5\nTrainStep.micro_batches = 2\n"
        "Translator.rerank = None\n"
        "prepare.subwords = @a/ExistingSubwords()\na/ExistingSubwords.model_dir = 'm'\n"
        "ImportedBehaviour.forbid_pad = True\nImportedBehaviour.forbidden_ids = (2,)\n"
    )
    assert bindings_in(there) == bindings_in(now)


def test_values_that_differ():
    there = {"a": 1, "b": {"c": [1, {"sha": "0" * 99}]}, "d": [1]}
    now = {"a": 1, "b": {"c": [1, {"sha": "1" * 99}]}, "d": [1, 2]}
    assert differing_values(there, now) == [
        f"b.c.1.sha '{'0' * 59}...{'0' * 11}' there, '{'1' * 59}...{'1' * 11}' now",
        "d.1 None there, 2 now",
    ]
    assert differing_values(there, there) == []
