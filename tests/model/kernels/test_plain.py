"""The program without its kernels gives what it gives with them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from t2t_repro.model import kernels
from tests.processes import CHECKOUT

PROGRAM = """
import json
import keras, numpy as np, tensorflow as tf
from t2t_repro import kernels
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.step_decoder import StepDecoder
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.optimizer import adam
from t2t_repro.training.train_step import StepSettings, TrainStep

rng = np.random.default_rng(0)
source = rng.integers(2, 40, (1, 3, 9)).astype(np.int32)
target = rng.integers(2, 40, (1, 3, 7)).astype(np.int32)
source[0, 1, 4:], target[0, 1, 3:] = 0, 0
found = {"plain": kernels.PLAIN}
for neighbourhood in (None, 3):
    keras.utils.set_random_seed(0)
    sizes = LayerConfig(16, 32, 2, dropout=0.0, activation="gelu")
    model = Transformer(40, 2, sizes, neighbourhood=neighbourhood)
    model.build()
    optimizer = adam(learning_rate=1e-3)
    step = TrainStep(model, optimizer, StepSettings(), seed=1)
    losses = [float(step(number, source, target).loss) for number in range(4)]
    gradients = step.gradients(4, source, target)[1]
    decoder = StepDecoder(model, 3)
    limits = tf.constant([12, 8, 20])
    best = BeamSearch(3).search(decoder, decoder.begin(tf.constant(source[0])), limits, 20, 3)
    found[str(neighbourhood)] = {
        "losses": losses,
        "norms": [float(tf.norm(gradient)) for gradient in gradients],
        "ids": best.ids.numpy().tolist(),
        "scores": best.scores.numpy().tolist(),
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def results():
    """What the program finds with its kernels, and without."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=CHECKOUT,
            env=os.environ | {"T2T_REPRO_PLAIN": plain, "PYTHONPATH": str(CHECKOUT)},
            stdout=subprocess.PIPE,
        )
        for plain in ("", "1")
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def test_the_switch_is_heeded(results):
    assert [found["plain"] for found in results] == [False, True]
    assert kernels.fast(1, 2) == (2 if kernels.PLAIN else 1)


@pytest.mark.parametrize("neighbourhood", ["None", "3"])
def test_training_and_decoding_are_the_same(results, neighbourhood):
    fast, plain = (found[neighbourhood] for found in results)
    np.testing.assert_allclose(fast["losses"], plain["losses"], rtol=1e-4)
    np.testing.assert_allclose(fast["norms"], plain["norms"], rtol=1e-3)
    np.testing.assert_allclose(fast["scores"], plain["scores"], rtol=1e-4)
    assert fast["ids"] == plain["ids"]
    assert fast["losses"][-1] < fast["losses"][0]
