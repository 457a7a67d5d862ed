"""The weights of our layers, converted so that Marian's layers compute the same.

Their encoding of positions has all sines first, then all cosines, where the paper's has them in
turn: the same vectors in another order. So every axis of a weight that runs over d_model is put in
that order, and all else follows.

The ε of their layer norm is 1e-5, whatever the model's. A norm with ε makes of s·x what one with ε
/ s² makes of x. So between the first norm of a stack and its last all vectors may be s times ours:
norms, and what adds to these vectors, have s times our weights; what reads them has ours divided by
s. Where s is a power of two, no bit of a weight is lost.
"""

import math

import numpy as np
from numpy.typing import NDArray

from t2t_repro.formats.marian.weights import layer_weights
from t2t_repro.model.transformer import Transformer

THEIR_EPSILON = 1e-5

Array = NDArray[np.float32]


def scale_for(epsilon: float) -> float:
    """Returns s, the power of two for which 1e-5 / s² comes nearest to an ε.

    Args:
        epsilon: of our norms.
    """
    return float(2.0 ** round(math.log2(math.sqrt(THEIR_EPSILON / epsilon))))


def their_order(model: Transformer) -> NDArray[np.int64]:
    """Returns which place of our vectors each place of theirs is: [d_model]."""
    places = np.arange(model.config.d_model)
    if model.positional_encoding.kind == "halves":
        return places
    return np.concatenate([places[0::2], places[1::2]])


def reordered(weight: Array, order: NDArray[np.int64], axes: tuple[int, ...]) -> Array:
    """Puts some axes of a weight, all of the length of `order`, in another order."""
    for axis in axes:
        weight = np.take(weight, order, axis)
    return np.ascontiguousarray(weight)


def layers_as_marians(model: Transformer) -> dict[str, Array]:
    """Returns the weights of all layers, by their names there; biases that ours lack are zeros.

    Args:
        model: built, post-norm, with as many heads of one depth as fill d_model.
    """
    order, scale = their_order(model), scale_for(model.config.norm_epsilon)
    found: dict[str, Array] = {}
    units = 0
    for weight in layer_weights(model):
        if weight.variable is None:
            found[weight.name] = np.zeros(units, np.float32)
            continue
        axes, power = _place_of(weight.name, model.num_layers)
        theirs = weight.theirs(np.array(weight.variable)) * np.float32(scale**power)
        found[weight.name] = reordered(theirs, order, axes)
        units = len(theirs)
    return found


def _place_of(name: str, num_layers: int) -> tuple[tuple[int, ...], int]:
    """Which axes of a weight of theirs run over d_model, and by which power of s it is ours."""
    number, *parts = name.split(".")[3:]
    sublayer, part, kind = parts[0], *parts[-2:]
    if part.endswith("layer_norm"):
        leaves = part == "final_layer_norm" and int(number) == num_layers - 1
        return (0,), int(not leaves)
    # What enters a stack, the memory too, is not scaled.
    enters = sublayer == "self_attn" and number == "0"
    is_memorys = sublayer == "encoder_attn" and part in ("k_proj", "v_proj")
    power = int(not enters and not is_memorys)
    if part in ("out_proj", "fc2"):
        return (0,), power
    return ((1,), -power) if kind == "weight" else ((), 0)
