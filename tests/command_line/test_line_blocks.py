"""Aligned texts come in blocks that hold every line once, wherever reading begins."""

import gzip
import io
import os
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.command_line import line_blocks
from t2t_repro.command_line.line_blocks import AlignedTexts
from t2t_repro.errors import UserError


def write(path, lines):
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 30), max_size=40),
    most=st.integers(1, 7),
    characters=st.integers(1, 60),
    data=st.data(),
)
def test_reading_on_gives_the_blocks_that_reading_all_gives(
    tmp_path_factory, lengths, most, characters, data
):
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{number} ".ljust(length, "x") for number, length in enumerate(lengths)]
    paths = {"input": write(folder / "a.gz", lines), "prefix": write(folder / "b", lines)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_blocks, "_LINES", most)
        patched.setattr(line_blocks, "_CHARACTERS", characters)
        texts = AlignedTexts(paths)
        blocks = list(texts)
        assert texts.total == len(lines)
        for column in ("input", "prefix"):
            assert [line for block in blocks for line in block.texts[column]] == lines
        read = 0
        for block in blocks:
            assert block.first == read + 1
            count = len(block.texts["input"])
            assert count <= most
            # One line more than there is room for, at most.
            assert sum(map(len, block.texts["input"][:-1])) * 2 <= characters
            read += count
        if blocks:
            last = data.draw(st.integers(0, len(blocks) - 1))
            resumed = AlignedTexts(paths)
            done = blocks[last].first - 1 + len(blocks[last].texts["input"])
            assert resumed.skip(done) == blocks[last].digest
            assert list(resumed) == blocks[last + 1 :]


def test_the_digest_is_of_every_line_of_every_text(tmp_path):
    def digest(name, *columns):
        flags = [str(number) for number in range(len(columns))]
        paths = {
            flag: write(tmp_path / f"{name}{flag}", c)
            for flag, c in zip(flags, columns, strict=True)
        }
        return AlignedTexts(paths).skip(2)

    one = digest("one", ["a", "b", "c"], ["d", "e", "f"])
    assert one == digest("other_end", ["a", "b", "x"], ["d", "e", "x"])
    assert one != digest("changed", ["a", "x", "c"], ["d", "e", "f"])
    assert one != digest("changed_too", ["a", "b", "c"], ["d", "x", "f"])
    assert one != digest("shorter", ["a"], ["d"])


def test_files_are_checked_before_the_first_block(tmp_path):
    long, short = write(tmp_path / "long", "abc"), write(tmp_path / "short", "ab")
    with pytest.raises(UserError, match=r"--input=.*long has 3 lines, --prefix=.*short has 2"):
        AlignedTexts({"input": long, "prefix": short})
    bad = tmp_path / "bad"
    bad.write_bytes(b"fine\n" * 9999 + b"caf\xe9\n")
    with pytest.raises(UserError, match="line 10000: byte 0xe9 at position 3 is not valid UTF-8"):
        AlignedTexts({"input": str(bad)})


def test_what_comes_through_a_pipe_is_read_as_it_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "_LINES", 2)
    read_end, write_end = os.pipe()
    stdin = SimpleNamespace(buffer=os.fdopen(read_end, "rb"))
    monkeypatch.setattr("sys.stdin", stdin)
    texts = AlignedTexts({"input": None})
    assert texts.total is None
    os.write(write_end, b"a\nb\nc")
    blocks = iter(texts)
    assert next(blocks).texts == {"input": ["a", "b"]}
    os.write(write_end, b"d\ne\xff\n")
    os.close(write_end)
    with pytest.raises(UserError, match="standard input, line 4: byte 0xff at position 1"):
        next(blocks)


def test_a_pipe_by_name_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writer.start()
    (block,) = AlignedTexts({"input": str(pipe)})
    writer.join()
    assert block.texts["input"] == ["a", "b"]


def test_standard_input_of_another_length_than_a_file(tmp_path, monkeypatch):
    path = write(tmp_path / "prefix", "ab")
    for text, received in ((b"a\n", "standard input has 1 lines"), (b"a\n" * 3, "prefix has 2")):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        with pytest.raises(UserError, match=received):
            list(AlignedTexts({"input": None, "prefix": path}))
