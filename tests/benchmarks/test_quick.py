"""A run with --quick leaves the pictures of docs/ as they are."""

from pathlib import Path

import pytest

import decoding_length
import scaling


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--quick"], "runs/quick/{}.png"),
        ([], "docs/{}.png"),
        (["--quick", "--out=a/b.png"], "a/b.png"),
    ],
)
def test_the_picture_is_another(tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    drawn = []
    cost = scaling.Cost(1.0, 1.0, 1.0, 1.0)
    monkeypatch.setattr(scaling, "measure_in_a_process", lambda *_: cost)
    monkeypatch.setattr(scaling, "plot", lambda *given: drawn.append(given[-1]))
    monkeypatch.setattr(decoding_length, "random_model", lambda *_: None)
    monkeypatch.setattr(decoding_length, "never_end", lambda _: None)
    monkeypatch.setattr(decoding_length, "measure", lambda *_: [])
    monkeypatch.setattr(decoding_length, "plot", lambda _, options: drawn.append(options.out))
    for script in (scaling, decoding_length):
        monkeypatch.setattr("sys.argv", ["script.py", *arguments])
        script.main()
    names = ("scaling", "decoding_length")
    assert drawn == [Path(expected.format(name)) for name in names]
    assert all(path.parent.is_dir() for path in drawn)
