"""Where the reference values of the original Tensor2Tensor are, if they are on this machine.

They lie in `t2t_oracle` of the folder that the environment variable T2T_REPRO_SHARED names, or of
a folder `shared` in the checkout or beside it. Tests that need them are skipped elsewhere.
"""

import os
from pathlib import Path

import numpy as np
import pytest

VARIANTS = ("paper", "v3")


def oracle_folder(variant: str) -> Path:
    checkout = Path(__file__).resolve().parents[1]
    shared = [checkout / "shared", checkout.parent / "shared"]
    if "T2T_REPRO_SHARED" in os.environ:
        shared = [Path(os.environ["T2T_REPRO_SHARED"])]
    for folder in shared:
        if (found := folder / "t2t_oracle" / variant).is_dir():
            return found
    pytest.skip("the values of the original T2T are not here: set T2T_REPRO_SHARED")


def oracle_arrays(variant: str) -> dict[str, np.ndarray]:
    with np.load(oracle_folder(variant) / "oracle.npz") as arrays:
        return dict(arrays)
