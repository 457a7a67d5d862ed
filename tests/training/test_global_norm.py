import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.model.kernels import gpu
from t2t_repro.training import global_norm

SHAPES = ((3, 4), (5,), (3, 4), (), (5,), (3, 4), (2, 2))


@pytest.mark.parametrize("has_gpu", [False, True])
def test_the_norm_is_tensorflows(has_gpu, monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: has_gpu)
    rng = np.random.default_rng(0)
    gradients = [tf.constant(rng.normal(size=shape), tf.float32) for shape in SHAPES]
    found = tf.function(global_norm.global_norm)(gradients)
    np.testing.assert_allclose(found, tf.linalg.global_norm(gradients), rtol=1e-6)


def test_on_a_gpu_there_is_a_program_for_each_shape_alone(monkeypatch):
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    specs = [tf.TensorSpec(shape) for shape in SHAPES]
    graph = tf.function(global_norm.global_norm).get_concrete_function(specs).graph
    assert sum(node.type == "L2Loss" for node in graph.get_operations()) == len(set(SHAPES))
