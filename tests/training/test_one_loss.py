"""One replica or four, with XLA or without, give the same losses; so does going on.

`python -m tests.training.one_loss` does it with eight, each of which is traced and compiled.
"""

import numpy as np
import pytest

from tests.training.one_loss import STEPS, all_losses

pytestmark = pytest.mark.long


def test_all_devices_have_one_loss(tmp_path):
    found = np.array(list(all_losses(tmp_path, [(1, 20), (4, STEPS)]).values()))
    assert found.shape == (5, STEPS)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), rtol=1e-5)
    # It learns, and what is compared is no constant.
    assert found[0, -5:].mean() < found[0, :5].mean() - 0.3
