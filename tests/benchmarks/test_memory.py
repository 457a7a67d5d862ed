"""The table of estimates beside XLA's analysis, of a model that compiles in seconds."""

import memory
from cost import Experiment
from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.data.slice_shapes import SliceShape
from t2t_repro.layers.layer_config import LayerConfig

SMALL = Experiment("small", ModelShape(50, 3, LayerConfig(32, 64, 2)), 1, "")


def test_xla_needs_about_what_is_estimated():
    shape = SliceShape(16, 40, 40, 500, 500)
    (row,) = memory.rows(SMALL, "float32", (shape,))
    name, precision, lengths, *_, ratio = row.strip("| ").split(" | ")
    assert [name, precision, lengths] == ["`small`", "`float32`", "16 × 40, 40"]
    assert 0.8 < float(ratio) < 1.2
