"""Parts of a model that training does not change: `TrainStep.frozen = ['encoder']`.

Keras's `trainable` stays True: only the update gets fewer variables.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import keras

from t2t_repro.errors import UserError
from t2t_repro.runs.weights import name_of


class Division(NamedTuple):
    """A model's weights, divided by what an update does with them.

    Attributes:
        updated: the variables that it changes, in the model's order.
        frozen: the names of the parts that it does not change, each as large as possible: so the
            same weights have the same names, however they were given.
    """

    updated: list[keras.Variable]
    frozen: tuple[str, ...]


def divide(model: keras.Model, frozen: Sequence[str]) -> Division:
    """Divides the weights of a model into updated and frozen ones.

    Args:
        model: such as the Transformer, built.
        frozen: names of its parts, as its variables' paths have them: "encoder",
            "decoder/layer_0", "decoder/layer_0/memory_attention".

    Raises:
        UserError: the model has no such part, or nothing is left to update.
    """
    names = [name_of(weight) for weight in model.trainable_variables]
    for part in frozen:
        if not any(_is_in(name, part) for name in names):
            raise UserError(
                f"TrainStep.frozen names {part!r}, expected parts of the model: "
                f"{', '.join(_parts(names))}; or parts of these."
            )
    kept = {name for name in names if any(_is_in(name, part) for part in frozen)}
    weights = zip(names, model.trainable_variables, strict=True)
    updated = [weight for name, weight in weights if name not in kept]
    if not updated:
        raise UserError(
            f"TrainStep.frozen = {list(frozen)} is the whole model, expected something left to "
            "train: leave a part out."
        )
    return Division(updated, tuple(_largest(kept, names)))


def _is_in(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}/")


def _parts(names: Collection[str], depth: int = 2) -> list[str]:
    """Lists the parts that hold weights, each before its own parts."""
    paths = [name.split("/")[:-1] for name in names]
    ends = range(1, depth + 1)
    return list(
        dict.fromkeys("/".join(path[:end]) for path in paths for end in ends if end <= len(path))
    )


def _largest(kept: Collection[str], names: Sequence[str]) -> list[str]:
    """Returns the fewest parts that hold the weights `kept` and no others."""
    largest: list[str] = []
    for part in [*_parts(names, depth=len(names)), *names]:
        is_new = not any(_is_in(part, other) for other in largest)
        if is_new and all(name in kept for name in names if _is_in(name, part)):
            largest.append(part)
    return largest
