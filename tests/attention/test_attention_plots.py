"""Pictures of attention: every head's weights are on them, whatever the words are."""

import errno
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from t2t_repro.attention.attention_lines import lines_picture
from t2t_repro.attention.attention_plots import layer_picture, overview
from t2t_repro.attention.maps import AttentionMap
from t2t_repro.attention.pictures import check_matplotlib
from t2t_repro.attention_maps import draw, write_files
from t2t_repro.errors import UserError

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
    """How many pixels have the darkest blue of the scale."""
    return int(np.all(np.abs(pixels[..., :3].astype(int) - [8, 48, 107]) < 8, axis=-1).sum())


@pytest.fixture(autouse=True)
def _needs_matplotlib():
    pytest.importorskip("matplotlib")


def test_a_layer_s_picture_is_a_png_with_all_its_heads():
    from matplotlib import image

    areas = []
    for heads in (1, 3, 5):
        png = layer_picture(attention(one_hot(2, heads, 2, 3)), 1)
        assert png.startswith(b"\x89PNG")
        areas.append(dark(image.imread(io.BytesIO(png)) * 255))
    # Every head has two cells that are as dark as can be.
    assert areas == pytest.approx([areas[0], 3 * areas[0], 5 * areas[0]], rel=0.1)
    assert areas[0] > 1000


def test_the_overview_has_all_layers_and_heads():
    one, all_layers = (overview(attention(one_hot(n, 2, 2, 3))) for n in (1, 3))
    assert all_layers.dtype == np.uint8
    assert all_layers.shape[2] == 3
    assert dark(all_layers) == pytest.approx(3 * dark(one), rel=0.1)


def test_the_overview_of_a_long_sentence_stays_small():
    weights = np.full((6, 8, 60, 60), 1 / 60, np.float32)
    words = [f"word{i}" for i in range(60)]
    height, width, _ = overview(attention(weights, words)).shape
    assert height * width < 7e6


def test_words_are_no_formulas():
    assert layer_picture(attention(one_hot(1, 2, 3, 5), WORDS), 0).startswith(b"\x89PNG")


def coloured(png, colour):
    """How many pixels of a PNG file have a colour in full."""
    from matplotlib import colormaps, image

    rgb = np.array(colormaps["tab10"](colour)[:3])
    return int(np.all(np.abs(image.imread(io.BytesIO(png))[..., :3] - rgb) < 0.02, axis=-1).sum())


def test_lines_from_a_word_are_those_of_its_heads():
    weights = one_hot(2, 3, 4, 5)
    # The weights of other queries, and those of other layers, are no lines from word 2.
    weights[1, 0, 2] = 0
    weights[1, 1, 2] = 0.2
    found = [coloured(lines_picture(attention(weights, WORDS), 1, "2"), head) for head in range(4)]
    assert found[2] > 1000
    # Nothing but their numbers in the legend.
    assert max(found[0], found[1]) < 100
    assert found[3] == 0


def test_lines_come_from_every_word_of_the_name():
    once = attention(one_hot(1, 1, 3, 3))
    twice = once._replace(queries=["0", "1", "0"])
    one, two = (coloured(lines_picture(words, 0, "0"), 0) for words in (once, twice))
    assert two > 1.5 * one


def test_a_word_has_pictures_where_it_is_a_query():
    maps = [attention(one_hot(2, 1, 3, 3))._replace(kind=kind) for kind in ("encoder", "cross")]
    maps[0] = maps[0]._replace(queries=["a", "b", "a"])
    names = {f"{kind}_layer_{n}" for kind in ("encoder", "cross") for n in (1, 2)}
    assert set(draw(maps, None)) == {f"{name}.png" for name in names}
    more = {f"encoder_layer_{n}_word.png" for n in (1, 2)}
    assert set(draw(maps, "a")) == {f"{name}.png" for name in names} | more
    with pytest.raises(UserError, match=r"--word='c' is no subword .* one of: a b 0 1 2$"):
        draw(maps, "c")


def test_pictures_leave_nothing_behind():
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    layer_picture(attention(one_hot(1, 1, 2, 3)), 0)
    overview(attention(one_hot(1, 1, 2, 3)))
    assert pyplot.get_fignums() == before


def test_matplotlib_can_be_missing(monkeypatch):
    check_matplotlib()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 't2t_repro\[plots\]'"):
        check_matplotlib()


# Files


def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"

    def content():
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    write_files(folder, {"one": b"1", "two": b"2"})
    assert content() == {"one": b"1", "two": b"2"}

    def write(path, content):
        if path.name == "two":
            raise OSError(errno.ENOSPC, "No space left on device")
        path.touch()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        with pytest.raises(UserError, match="No space left on device; expected a folder"):
            write_files(folder, {"one": b"new", "two": b"new"})
    assert content() == {"one": b"1", "two": b"2"}


def test_pictures_of_two_sentences_are_not_mixed(tmp_path):
    names = [f"{number}.png" for number in range(30)]

    def write(content):
        write_files(tmp_path, dict.fromkeys(names, content))

    for _ in range(10):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, [b"1", b"2", b"3", b"4"]))
        assert len({path.read_bytes() for path in tmp_path.glob("*.png")}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_the_output_is_a_folder(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(UserError, match="; expected a folder that can be written to"):
            write_files(path, {"one": b"1"})
