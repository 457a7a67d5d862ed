"""What the matrices of attention and of the feed-forward network start as.

The paper does not say. T2T draws all of them as Glorot and Bengio 2010 do ("uniform_unit_scaling").
fairseq starts with smaller ones, from which a post-norm model learns faster; see EXPERIMENTS.md,
Multi30k. W^O, the biases (0) and the embedding are the same in both.
"""

from typing import Literal

from keras.initializers import Initializer, VarianceScaling

from t2t_repro.config.values import check_value

Initialization = Literal["glorot", "fairseq"]
"""Whose: "glorot" is T2T's."""


def of_heads(initialization: Initialization) -> Initializer:
    """Draws W^Q, W^K and W^V [fan_in, fan_out].

    glorot: U(-b, b), b = √(6 / (fan_in + fan_out)).
    fairseq: b / √2, which is Glorot's of the three side by side.

    Raises:
        UserError: there is no such initialization.
    """
    check_value("initialization", initialization, Initialization)
    scale = 1.0 if initialization == "glorot" else 0.5
    return VarianceScaling(scale, mode="fan_avg", distribution="uniform")


def of_feed_forward(initialization: Initialization) -> Initializer:
    """Draws W_1 and W_2 [fan_in, fan_out].

    glorot: as in `of_heads`.
    fairseq: U(-b, b), b = 1 / √fan_in: PyTorch's `nn.Linear`, but for its biases.

    Raises:
        UserError: there is no such initialization.
    """
    check_value("initialization", initialization, Initialization)
    if initialization == "glorot":
        return of_heads(initialization)
    return VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")
