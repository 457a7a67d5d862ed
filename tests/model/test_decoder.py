import numpy as np
import pytest

from t2t_repro.model.decoder import Decoder, DecoderLayer
from tests.layer_test import randomize, run_layer_test
from tests.model.test_encoder import ATTENTION, D_MODEL, FEED_FORWARD, MASK, NORM, X, sizes

TARGET = np.random.default_rng(1).normal(size=(2, 4, D_MODEL)).astype(np.float32)
CAUSAL = np.tril(np.ones((1, 4, 4), bool))
LAYER = 2 * ATTENTION + FEED_FORWARD + 3 * NORM


@pytest.mark.parametrize("neighbourhood", [None, 1, 4])
def test_what_a_position_sees(neighbourhood):
    """With one layer, an output depends on the inputs that self-attention shows it."""
    x = np.random.default_rng(2).normal(size=(1, 6, D_MODEL)).astype(np.float32)
    memory = x[:, :1]
    decoder = randomize(Decoder(1, sizes("post"), neighbourhood), shape=x.shape)
    everyone = np.ones((1, 1, 1), bool)
    before = decoder(x, memory, source_mask=everyone).numpy()
    reach = 99 if neighbourhood is None else neighbourhood // 2
    for j in range(6):
        changed = x.copy()
        changed[:, j] += 1.0
        moved = np.abs(decoder(changed, memory, source_mask=everyone) - before)[0].max(-1) > 1e-6
        assert moved.tolist() == [0 <= i - j <= reach for i in range(6)]


@pytest.mark.parametrize(
    ("kind", "normalization", "options", "masks", "count"),
    [
        (DecoderLayer, "post", {}, {"attention_mask": CAUSAL}, 1),
        (Decoder, "pre", {"num_layers": 2, "neighbourhood": 4}, {}, 2),
    ],
)
def test_decoder_as_a_layer(kind, normalization, options, masks, count):
    weights = count * LAYER + (NORM if kind is Decoder else 0)
    config, masks = options | {"config": sizes(normalization)}, masks | {"source_mask": MASK}
    run_layer_test(kind, config, (TARGET, X), TARGET.shape, weights, masks)
