"""Exponents and crossings of costs that are known; what the layers multiply, against a graph."""

import math

import pytest
import tensorflow as tf

from layer_complexity import make_layer, step_of
from layer_complexity_report import (
    CONCERNED,
    LAYERS,
    SWEEPS,
    crossing,
    exponent,
    multiplications,
    plot,
    report,
    sizes,
)

SIZES = (64, 128, 256, 512)


@pytest.mark.parametrize("power", [0, 1, 1.5, 2])
def test_the_exponent_of_a_power_is_found_behind_overhead(power):
    assert exponent([(x, 3 * x**power) for x in SIZES]) == pytest.approx(power)
    with_overhead = [(1, 1000.0), (2, 1000.0), *((x, x**power) for x in SIZES)]
    assert exponent(with_overhead) == pytest.approx(power)


def test_what_took_no_memory_is_left_out_of_the_fit():
    assert exponent([(64, 0.0), (128, 128.0), (256, 256.0)]) == pytest.approx(1)
    assert math.isnan(exponent([(64, 0.0), (128, 0.0), (256, 9.0)]))


def test_a_crossing_lies_where_the_lines_do():
    square, line = [(x, x**2) for x in SIZES], [(x, 300 * x) for x in SIZES]
    found = crossing(square, line)
    assert found == pytest.approx((300, 300**2))
    assert crossing(line, square) is None
    assert crossing(square, [(x, 1e9) for x in SIZES]) is None
    noisy = [(64, 2.0), (128, 1.0), (256, 1.0), (512, 4.0)]
    assert crossing(noisy, [(x, 2.0) for x in SIZES]) == pytest.approx((256 * 2**0.5, 2.0))
    assert crossing([(64, 1.0), (128, 2.0), (256, 1.0)], [(x, 1.5) for x in SIZES]) is None


@pytest.mark.parametrize("layer", ["self-attention", "restricted"])
def test_multiplications_are_those_of_the_graph(layer):
    case = {"layer": layer, "n": 96, "d": 16, "k": 3, "r": 7}
    model = make_layer(case)
    graph = tf.function(model).get_concrete_function(tf.TensorSpec([1, 96, 16])).graph
    total = 0
    for node in graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            total += math.prod(node.outputs[0].shape.as_list()) * node.inputs[0].shape[-1]
    assert multiplications(layer, 96, 16, 3, 7) == total


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_keeps_the_shape_and_has_gradients(layer):
    gradients = step_of({"layer": layer, "batch": 2, "n": 5, "d": 16, "k": 3, "r": 2})()
    assert gradients[0].shape == (2, 5, 16)
    assert len(gradients) > 1


def test_report_and_plot(tmp_path):
    """Costs that follow the layers' multiplications: the crossings must be the counted ones."""
    pytest.importorskip("matplotlib")
    results = []
    for swept, values in SWEEPS.items():
        for layer in CONCERNED[swept]:
            for value in values:
                case = sizes(swept, value)
                cost = multiplications(layer, **case)
                measured = {"seconds": cost, "megabytes": cost}
                results.append({"swept": swept, "layer": layer, **case, **measured})
    text = report(results)
    recurrent = next(x for x in text.splitlines() if x.startswith("| recurrent | 256 |"))
    assert recurrent == "| recurrent | 256 | 512 | 512 | 512 |"
    exponents = next(x for x in text.splitlines() if x.startswith("| recurrent | 1 |"))
    assert exponents.startswith("| recurrent | 1 | 1.00 | 1.00 | 1.00 | 2 | 2.00 | 2.00 | 2.00 |")
    plot(results, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
