"""Pictures of attention have the weights of every head, with any words."""

import io

import numpy as np
import pytest

from attention_images import overview
from t2t_repro.attention.maps import AttentionMap, layer_picture
from t2t_repro.errors import UserError, require_installed

WORDS = [r"$\frac{$", "$x$", "<b>", "a" * 50, "Ω"]


def attention(weights, keys=("a", "b", "c")):
    queries = [str(i) for i in range(weights.shape[2])]
    return AttentionMap("cross", "Cross-attention", "rows", "columns", queries, list(keys), weights)


def one_hot(layers, heads, queries, keys):
    """Query q attends to key (q + layer + head) % keys alone."""
    weights = np.zeros((layers, heads, queries, keys), np.float32)
    for layer, head, q in np.ndindex(layers, heads, queries):
        weights[layer, head, q, (q + layer + head) % keys] = 1
    return weights


def dark(pixels):
    """Counts the pixels that have the darkest blue of the scale."""
    return int(np.all(np.abs(pixels[..., :3].astype(int) - [8, 48, 107]) < 8, axis=-1).sum())


@pytest.fixture(autouse=True)
def _needs_matplotlib():
    pytest.importorskip("matplotlib")


def test_a_layer_s_picture_is_a_png_with_all_its_heads():
    from matplotlib import image, pyplot

    areas = []
    for heads in (1, 3, 5):
        png = layer_picture(attention(one_hot(2, heads, 2, 3)), 1)
        areas.append(dark(image.imread(io.BytesIO(png)) * 255))
    assert areas == pytest.approx([areas[0], 3 * areas[0], 5 * areas[0]], rel=0.1)
    assert areas[0] > 1000
    assert not pyplot.get_fignums()


def test_the_overview_has_all_layers_and_stays_small():
    one, three = (overview(attention(one_hot(n, 2, 2, 3))) for n in (1, 3))
    assert three.dtype == np.uint8
    assert dark(three) == pytest.approx(3 * dark(one), rel=0.1)
    words = [f"word{i}" for i in range(60)]
    height, width, _ = overview(attention(np.full((2, 2, 60, 60), 1 / 60, np.float32), words)).shape
    assert height * width < 1e6


def test_words_are_not_formulas():
    assert layer_picture(attention(one_hot(1, 2, 3, 5), WORDS), 0).startswith(b"\x89PNG")


def test_matplotlib_can_be_missing(monkeypatch):
    require_installed("matplotlib", extra="plots")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="plots"):
        require_installed("matplotlib", extra="plots")
