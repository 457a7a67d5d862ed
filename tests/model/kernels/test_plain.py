"""The formulas alone give what the program gives with its kernels."""

import json
import os
import subprocess
import sys

import numpy as np

from t2t_repro.model import kernels
from tests.model.kernels.plain_program import results
from tests.processes import CHECKOUT


def test_training_and_decoding_are_the_same_without_kernels():
    command = [sys.executable, "-m", "tests.model.kernels.plain_program"]
    env = os.environ | {"T2T_REPRO_PLAIN": "1", "PYTHONPATH": str(CHECKOUT)}
    output = subprocess.run(command, cwd=CHECKOUT, env=env, check=True, stdout=subprocess.PIPE)
    plain, fast = json.loads(output.stdout.splitlines()[-1]), results()
    assert (plain.pop("plain"), fast.pop("plain")) == (True, False)
    assert kernels.fast(1, 2) == 1
    for model, found in fast.items():
        for name, values in found.items():
            np.testing.assert_allclose(values, plain[model][name], rtol=1e-4, atol=1e-5)
