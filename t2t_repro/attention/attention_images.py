"""Attention maps of a dev sentence, drawn at every dev evaluation for TensorBoard."""

from collections.abc import Callable
from typing import Annotated

import gin
import numpy as np
from numpy.typing import NDArray

from t2t_repro.attention.attention_plots import overview
from t2t_repro.attention.maps import PairAttention
from t2t_repro.attention.pictures import check_matplotlib
from t2t_repro.config.values import Count, Range, check_value, validated
from t2t_repro.data.prepared import PreparedData
from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer


@gin.configurable(denylist=["model", "data"])
@validated
def attention_images(
    model: Transformer, data: PreparedData, sentence: Count = 1
) -> Callable[[], list[tuple[str, NDArray[np.uint8]]]]:
    """Draws how a model attends in a dev sentence, with its reference as the target.

    For gin: `DevEvaluation.images = @attention_images`. matplotlib draws.

    Args:
        model: the Transformer.
        data: its dev split is read.
        sentence: which of the dev sentences, 1 the first.

    Returns:
        a function that gives names and pixels, [height, width, 3], with the weights of the time.

    Raises:
        UserError: there is no such sentence, or it is too long, or matplotlib is missing.
    """
    check_matplotlib()
    source, target = data.text("dev")
    among = Annotated[int, Range(least=1, most=len(source))]
    check_value("attention_images.sentence", sentence, among)
    try:
        pair = PairAttention(model, data.subwords, source[sentence - 1], target[sentence - 1])
    except UserError as error:
        raise UserError(f"attention_images.sentence is {sentence}: {error}") from error
    return lambda: [(f"attention/{one.kind}", overview(one)) for one in pair.maps()]
