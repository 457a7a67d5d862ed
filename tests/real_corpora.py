"""Published models, too large for the repository, where somebody has them.

They lie in the folder that the environment variable T2T_REPRO_SHARED names, or in a folder `shared`
in the checkout or beside it. Tests that need them are skipped elsewhere.
"""

import os
from pathlib import Path

import pytest

from tests.processes import CHECKOUT


def shared_folder(name: str) -> Path:
    shared = [CHECKOUT / "shared", CHECKOUT.parent / "shared"]
    if "T2T_REPRO_SHARED" in os.environ:
        shared = [Path(os.environ["T2T_REPRO_SHARED"])]
    for folder in shared:
        if (found := folder / name).is_dir():
            return found
    pytest.skip(f"{name} is not here: set T2T_REPRO_SHARED")
