"""What OpenNMT-tf is asked, and what is read out of what it says."""

import json
import re

from equal_budget import RECIPE
from toolkits.opennmt_commands import curves, model_text, settings_text, training_facts


def _update(step, tokens):
    return (
        f"2026-11-22 17:15:52: I runner.py:310] Step = {step} ; steps/s = 2.00, tokens/s = 7800 "
        f"(3800 source, {tokens} target) ; Learning rate = 0.000051 ; Loss = 8.973944\n"
    )


def _evaluation(step, nll):
    return (
        f"2026-11-22 17:16:08: I training.py:192] Evaluation result for step {step}: loss = {nll} "
        "; perplexity = 7961.603027\n"
    )


def test_settings_are_the_recipe_with_numbers_that_yaml_reads_as_numbers(tmp_path):
    text = settings_text(RECIPE, tmp_path / "pieces", tmp_path / "model", 2080, 300)
    found = json.loads(text)
    # YAML 1.1 takes 1e-09 for text.
    assert re.search(r": 1\.0e-09\b", text)
    assert found["params"]["optimizer_params"]["epsilon"] == RECIPE.adam_epsilon
    assert found["params"]["learning_rate"] == RECIPE.learning_rate
    assert found["train"]["max_step"] == RECIPE.steps
    assert found["train"]["keep_checkpoint_max"] == RECIPE.averaged
    assert found["data"]["train_labels_file"] == str(tmp_path / "pieces" / "train.de")


def test_the_description_of_a_model_is_python():
    compile(model_text(RECIPE), "description.py", "exec")
    assert f"num_units={RECIPE.d_model}," in model_text(RECIPE)


def test_facts_and_curves_are_of_the_last_time_that_an_update_was_made():
    log = _update(50, 4000) + _evaluation(50, 7.982386) + _update(100, 2000)
    log += _evaluation(50, 6.5) + _update(100, 3000)
    assert training_facts(log) == {"updates": 100, "target_tokens_per_second": 3500}
    # Two updates a second.
    point = {"run": "seed_1", "tag": "dev/nll", "step": 50, "hours": 25 / 3600, "value": 6.5}
    assert curves(log, "seed_1") == [point]
