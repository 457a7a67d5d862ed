"""Parts of a model that training does not change: `TrainStep.frozen = ['encoder']`.

Keras's `trainable` stays True: only the update gets fewer variables.
"""

from collections.abc import Sequence

import keras

from t2t_repro.errors import UserError
from t2t_repro.runs.weights import name_of


def updated_weights(model: keras.Model, frozen: Sequence[str]) -> list[keras.Variable]:
    """Returns the weights of a model that an update changes, in the model's order.

    Args:
        model: such as the Transformer, built.
        frozen: names of the parts that it does not change, as its variables' paths have them:
            "encoder", "decoder/layer_0", "decoder/layer_0/memory_attention".

    Raises:
        UserError: the model has no such part, or nothing is left to update.
    """
    names = [name_of(weight) for weight in model.trainable_variables]
    for part in frozen:
        if not any(_is_in(name, part) for name in names):
            paths = [name.split("/")[:-1] for name in names]
            parts = dict.fromkeys("/".join(path[:end]) for path in paths for end in (1, 2))
            raise UserError(
                f"TrainStep.frozen names {part!r}, expected parts of the model: "
                f"{', '.join(filter(None, parts))}; or parts of these."
            )
    weights = zip(names, model.trainable_variables, strict=True)
    updated = [one for name, one in weights if not any(_is_in(name, part) for part in frozen)]
    if not updated:
        raise UserError(
            f"TrainStep.frozen = {list(frozen)} is the whole model, expected something left to "
            "train: leave a part out."
        )
    return updated


def _is_in(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}/")
