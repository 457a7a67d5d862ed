"""Where reference values and corpora are, if they are on this machine.

They lie in the folder that the environment variable T2T_REPRO_SHARED names, or in a folder `shared`
in the checkout or beside it: the values of the original Tensor2Tensor in `t2t_oracle`, corpora in
`data`. Tests that need them are skipped elsewhere.
"""

import os
from pathlib import Path

import numpy as np
import pytest

VARIANTS = ("paper", "v3")


def oracle_folder(variant: str) -> Path:
    return shared_folder(f"t2t_oracle/{variant}")


def shared_folder(name: str) -> Path:
    checkout = Path(__file__).resolve().parents[1]
    shared = [checkout / "shared", checkout.parent / "shared"]
    if "T2T_REPRO_SHARED" in os.environ:
        shared = [Path(os.environ["T2T_REPRO_SHARED"])]
    for folder in shared:
        if (found := folder / name).is_dir():
            return found
    pytest.skip(f"{name} is not here: set T2T_REPRO_SHARED")


def oracle_arrays(variant: str) -> dict[str, np.ndarray]:
    with np.load(oracle_folder(variant) / "oracle.npz") as arrays:
        return dict(arrays)
