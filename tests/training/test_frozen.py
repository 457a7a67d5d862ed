"""Parts that training leaves as they are: which, and that they are what they were to the bit."""

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.runs.weights import name_of
from t2t_repro.training.fine_tuning import updated_weights
from tests.training.tiny import copies, random_ids, tiny_model, tiny_step


def names(model, *parts):
    return [
        name_of(weight)
        for weight in model.trainable_variables
        if any(f"{name_of(weight)}/".startswith(f"{part}/") for part in parts)
    ]


@pytest.mark.parametrize(
    "frozen",
    [[], ["encoder"], ["decoder/layer_1", "decoder/layer_1/feed_forward"], ["embedding/table"]],
)
def test_parts_are_named_as_paths_have_them(frozen):
    model = tiny_model(num_layers=2)
    kept = {id(weight) for weight in updated_weights(model, frozen)}
    left = [name_of(weight) for weight in model.trainable_variables if id(weight) not in kept]
    assert left == names(model, *frozen)


@pytest.mark.parametrize("name", ["encoder/layer_2", "encoder/lay", ""])
def test_an_unknown_part_is_an_error_that_lists_those_there_are(name):
    with pytest.raises(UserError, match=r"names '.*', expected parts of the model: embedding, enc"):
        updated_weights(tiny_model(num_layers=2), [name])


def test_of_all_parts_nothing_is_left_to_train():
    with pytest.raises(UserError, match=r"is the whole model, expected something left"):
        updated_weights(tiny_model(), ["embedding", "encoder", "decoder"])


def updated(step, updates=2):
    """The weights before and after some updates of random sentences, and what the last one said."""
    before = copies(step.model)
    rng = np.random.default_rng(0)
    for number in range(updates):
        ids = [
            random_ids(rng, step.micro_batches, [5, 3] * step.micro_batches, 6) for _ in range(2)
        ]
        result = step(number, *ids)
    return before, copies(step.model), result


def test_frozen_weights_stay_bit_equal_and_all_others_move():
    """And the moving average of a frozen weight is the weight."""
    step = tiny_step(
        frozen=["embedding", "decoder/layer_0/memory_attention"], micro_batches=2, decay=0.9
    )
    before, after, result = updated(step)
    assert result.usable == 1
    updated_ids = {id(weight) for weight in step.updated}
    weights = zip(step.model.trainable_variables, before, after, step.average.values, strict=True)
    for weight, old, new, average in weights:
        is_updated = id(weight) in updated_ids
        assert (old != new).any() == is_updated, weight.path
        assert (old != average.numpy()).any() == is_updated, weight.path
    # Adam has two moments of each, and none of the others.
    assert len(step.optimizer.variables) == 2 + 2 * len(step.updated)
