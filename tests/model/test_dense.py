"""Dense layers fill the bounds of their initialization."""

import math

import keras
import numpy as np
import pytest

from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import named_values

D_MODEL, D_FF = 64, 96
GLOROT = math.sqrt(6 / (2 * D_MODEL))
GLOROT_WIDE = math.sqrt(6 / (D_MODEL + D_FF))

BOUNDS = {
    "glorot": {"heads": GLOROT, "output": GLOROT, "inner": GLOROT_WIDE, "outer": GLOROT_WIDE},
    "fairseq": {
        # Of one matrix that holds the three, [d_model, 3·d_model].
        "heads": math.sqrt(6 / (D_MODEL + 3 * D_MODEL)),
        "output": GLOROT,
        "inner": D_MODEL**-0.5,
        "outer": D_FF**-0.5,
    },
}


def weights(neighbourhood=None, **options):
    keras.utils.set_random_seed(0)
    config = LayerConfig(D_MODEL, D_FF, 4, attention_biases=True, **options)
    model = Transformer(20, 2, config, neighbourhood=neighbourhood)
    model.build()
    return named_values(model)


@pytest.mark.parametrize("neighbourhood", [None, 3])
@pytest.mark.parametrize("initialization", BOUNDS)
def test_matrices_fill_their_bounds_and_biases_are_zero(initialization, neighbourhood):
    found = weights(neighbourhood, initialization=initialization)
    matrices = [name for name in found if name.endswith("/kernel")]
    # Encoder and decoder, two layers each.
    assert len(matrices) == 2 * (4 + 2) + 2 * (8 + 2)
    for name in matrices:
        part = name.split("/")[-2]
        bound = BOUNDS[initialization]["heads" if part in ("query", "key", "value") else part]
        values = found[name] / bound
        assert 0.99 < np.abs(values).max() <= 1, name
        # Of a uniform distribution.
        assert values.std() == pytest.approx(1 / math.sqrt(3), rel=0.03), name
    for name, values in found.items():
        if name.endswith("/bias"):
            assert not values.any(), name
