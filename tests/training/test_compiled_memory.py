"""Against XLA itself see tests/benchmarks/test_memory.py."""

import dataclasses

import pytest

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.training.compiled_memory import compiled_bytes
from tests.training.tiny import tiny_model

SHAPE = BatchShape(8, 10, 12, 80, 96)


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
    source, target = SHAPE.capacity
    # What goes in; two gradients by the encoder's output come, as the layer's input goes.
    assert again[1] - again[0] == 4 * 16 * (source + target + 2 * source - target)
    assert again[1] - again[0] < (once[1] - once[0]) / 4


def test_where_layers_are_computed_again_logits_and_a_layer_are_not_there_at_once():
    model = changed(tiny_model(), recompute=True)

    def taken(vocab_size, d_ff):
        model.vocab_size = vocab_size
        return compiled_bytes(changed(model, d_ff=d_ff), SHAPE, True)

    # Logits are what counts where there are many, else the layer.
    assert taken(5000, 64) == taken(5000, 32) < taken(6000, 32)
    assert taken(41, 640) == taken(40, 640) < taken(40, 650)


@pytest.mark.parametrize(("recompute", "of_weight"), [(False, 0), (True, 2)])
def test_copies_in_bfloat16_lie_where_gradients_will_be_unless_layers_are_computed_again(
    recompute, of_weight
):
    """Where a layer is at the peak, and not the logits, a larger vocabulary is weights alone."""
    shape, vocab = BatchShape(8, 10, 12, 80, 96), (40, 41)
    model = changed(tiny_model(dtype="mixed_bfloat16"), recompute=recompute, d_ff=4096)
    logits = 0 if recompute else 2 * 2 * shape.capacity[1]
    taken = []
    for model.vocab_size in vocab:
        # The embedding's new row has as many weights as the model is wide.
        model.count_params = lambda: 16 * model.vocab_size
        taken.append(compiled_bytes(model, shape, True))
    assert taken[1] - taken[0] == 16 * of_weight + logits


def test_a_gpu_keeps_the_projections_of_attention_side_by_side():
    """In float32, of two attentions queries, keys and values, of the third keys and values."""
    model = changed(tiny_model(), activation="swish")
    on_cpu, on_gpu = (compiled_bytes(model, SHAPE, on_gpu) for on_gpu in (False, True))
    assert on_gpu - on_cpu == 4 * 16 * (2 * 3 + 2) * 16


@pytest.mark.parametrize(("on_gpu", "vectors"), [(True, 1), (False, 0)])
def test_a_gpu_s_relu_keeps_its_output_alone(on_gpu, vectors):
    relu, swish = (
        compiled_bytes(changed(tiny_model(), activation=name), SHAPE, on_gpu)
        for name in ("relu", "swish")
    )
    assert swish - relu == 4 * vectors * sum(SHAPE.capacity) * tiny_model().config.d_ff


@pytest.mark.parametrize(("on_gpu", "less"), [(True, True), (False, False)])
def test_bfloat16_takes_less_on_a_gpu_alone(on_gpu, less):
    longer = SHAPE._replace(source_tokens=8000, target_tokens=8000)
    narrow, wide = (
        compiled_bytes(tiny_model(dtype=dtype), longer, on_gpu)
        for dtype in ("mixed_bfloat16", "float32")
    )
    assert (narrow < 0.7 * wide) is less


@pytest.mark.parametrize(("on_gpu", "of_element"), [(False, 2), (True, 1)])
def test_dropout_keeps_random_bits_or_what_they_decide(on_gpu, of_element):
    without, with_it = (
        compiled_bytes(changed(tiny_model(num_layers=2), dropout=dropout), SHAPE, on_gpu)
        for dropout in (0.0, 0.1)
    )
    source, target = SHAPE.capacity
    # 2 × 2 sub-layers there, 2 × 3 here, and what either embeds.
    assert with_it - without == of_element * 16 * (5 * source + 7 * target)
