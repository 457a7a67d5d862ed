import keras
import numpy as np
import pytest

from t2t_repro.model.kernels import gpu
from t2t_repro.model.kernels.adam import FusedAdam


def weights_after(optimizer_class, steps, rate):
    rng = np.random.default_rng(0)
    variables = [
        keras.Variable(rng.normal(size=s), name=f"w{len(s)}", dtype="float32")
        for s in [(3, 4), (5,)]
    ]
    optimizer = optimizer_class(rate, beta_2=0.98, epsilon=1e-9)
    optimizer.build(variables)
    for _ in range(steps):
        gradients = [keras.ops.cast(rng.normal(size=v.shape), "float32") for v in variables]
        optimizer.apply(gradients)
    return [v.numpy() for v in variables], [v.path for v in optimizer.variables]


@pytest.mark.parametrize("rate", [0.01, keras.optimizers.schedules.InverseTimeDecay(0.1, 2, 0.5)])
@pytest.mark.parametrize("has_gpu", [False, True])
def test_its_steps_are_those_of_kerass_adam(rate, has_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)
    (ours, paths), (theirs, others) = (
        weights_after(kind, 20, rate) for kind in (FusedAdam, keras.optimizers.Adam)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    # A checkpoint of the one is a checkpoint of the other.
    assert [path.split("/")[-1] for path in paths] == [path.split("/")[-1] for path in others]
