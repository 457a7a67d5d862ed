"""Against XLA itself see tests/benchmarks/test_memory.py."""

import dataclasses

import pytest

from t2t_repro.data.slice_shapes import SliceShape
from t2t_repro.training.compiled_memory import compiled_bytes
from tests.training.tiny import tiny_model

SHAPE = SliceShape(8, 10, 12, 80, 96)


def changed(model, **changes):
    model.config = dataclasses.replace(model.config, **changes)
    return model


def test_layers_that_are_computed_again_keep_less():
    once, again = (
        [
            compiled_bytes(
                changed(tiny_model(num_layers=layers), recompute=recompute), SHAPE, False
            )
            for layers in (4, 5)
        ]
        for recompute in (False, True)
    )
    assert again[1] - again[0] == 4 * sum(SHAPE.slots) * 16
    assert again[1] - again[0] < (once[1] - once[0]) / 4


@pytest.mark.parametrize(("on_gpu", "less"), [(True, True), (False, False)])
def test_bfloat16_takes_less_on_a_gpu_alone(on_gpu, less):
    longer = SHAPE._replace(source_tokens=8000, target_tokens=8000)
    narrow, wide = (
        compiled_bytes(tiny_model(dtype=dtype), longer, on_gpu)
        for dtype in ("mixed_bfloat16", "float32")
    )
    assert (narrow < 0.7 * wide) is less


def test_without_dropout_there_are_no_random_bits():
    without, with_it = (
        compiled_bytes(changed(tiny_model(num_layers=2), dropout=dropout), SHAPE, True)
        for dropout in (0.0, 0.1)
    )
    source, target = SHAPE.slots
    # Of two bytes: 2 × 2 sub-layers there, 2 × 3 here, and what either embeds.
    assert with_it - without == 2 * 16 * (5 * source + 7 * target)
