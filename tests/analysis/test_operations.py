"""Operations by the closed form are those of the products in the model's own graph."""

import math

import pytest
import tensorflow as tf

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import forward_operations, training_operations
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer

BASE = ModelShape(40_960, 6, LayerConfig())


def operations_in_graph(model, source_length, target_length):
    """Twice the multiplications of every matrix product that the model's graph holds."""
    ids = [tf.TensorSpec([1, length], tf.int32) for length in (source_length, target_length)]
    graph = tf.function(lambda *ids: model(ids)).get_concrete_function(*ids).graph
    total = 0
    for node in graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            transposed = node.get_attr("transpose_a" if node.type == "MatMul" else "adj_x")
            inner = node.inputs[0].shape[-2 if transposed else -1]
            total += 2 * math.prod(node.outputs[0].shape.as_list()) * inner
    return total


@pytest.mark.parametrize(
    ("layer", "lengths"),
    [
        (LayerConfig(8, 12, 2), (5, 7)),
        (LayerConfig(8, 20, 3, d_k=5, d_v=2, normalization="pre"), (9, 4)),
    ],
)
def test_the_closed_form_is_what_the_graph_holds(layer, lengths):
    model = Transformer(11, 2, layer)
    counted = forward_operations(ModelShape.of(model.get_config()), *lengths).total
    assert counted == operations_in_graph(model, *lengths)


@pytest.mark.parametrize(("neighbourhood", "lengths"), [(1, (20, 32)), (6, (96, 64))])
def test_a_neighbourhood_counts_the_keys_of_its_windows(neighbourhood, lengths):
    """Lengths that fill their blocks: padding is not counted."""
    model = Transformer(11, 2, LayerConfig(8, 12, 2), neighbourhood=neighbourhood)
    counted = forward_operations(ModelShape.of(model.get_config()), *lengths).total
    assert counted == operations_in_graph(model, *lengths)


def test_a_neighbourhood_makes_self_attention_grow_with_the_length():
    near = BASE._replace(neighbourhood=16)
    encoder = [forward_operations(near, n, 1).attention for n in (0, 1_000, 2_000)]
    assert encoder[2] - encoder[1] == encoder[1] - encoder[0]
    assert forward_operations(near, 25, 25) == forward_operations(BASE, 25, 25)


def test_only_attention_grows_with_the_square_of_the_length():
    once, twice = forward_operations(BASE, 25, 25), forward_operations(BASE, 50, 50)
    assert twice.attention == 4 * once.attention
    assert twice.projections == 2 * once.projections
    assert twice.feed_forward == 2 * once.feed_forward
    assert twice.softmax == 2 * once.softmax
    assert once.attention / once.total == pytest.approx(0.007, abs=0.0005)


def test_a_product_costs_two_operations_a_parameter_and_token():
    """Without attention's own products: 2 for each weight of a matrix, for each of its tokens."""
    counted = forward_operations(BASE, 1, 1)
    matrices = 6 * (3 * 4 * 512**2 + 2 * 2 * 512 * 2048) + 40_960 * 512
    assert counted.total - counted.attention == 2 * matrices


def test_training_the_paper_s_base_model():
    """100,000 batches of 25,000 tokens a side: 1.0e18, forward and twice as much backward."""
    tokens = 25_000 * 100_000
    counted = training_operations(BASE, tokens, tokens, 25)
    assert counted == pytest.approx(1e18, rel=0.02)
    assert counted == pytest.approx(3 * tokens / 25 * forward_operations(BASE, 25, 25).total)
    shorter = training_operations(BASE, 0.8 * tokens, tokens, 25)
    assert shorter == pytest.approx(3 * tokens / 25 * forward_operations(BASE, 20, 25).total)
