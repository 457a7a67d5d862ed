"""Files of lines: nothing but a newline ends a line."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_repro.data.line_files import read_lines


def write(path: Path, content: str | bytes) -> str:
    data = content.encode("utf-8") if isinstance(content, str) else content
    modules = {".gz": gzip, ".xz": lzma, ".bz2": bz2}
    path.write_bytes(modules[path.suffix].compress(data) if path.suffix in modules else data)
    return str(path)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_lines_end_at_newlines_only_and_lose_nothing_else(tmp_path, suffix):
    content = "\ufeffa\u2028b\r\n\n c \x85\x0b\x1c\nlone\rreturn\nlast"
    # The content says how it is compressed, not the name.
    path = Path(write(tmp_path / f"x{suffix}", content)).rename(tmp_path / "x.gz")
    assert list(read_lines(path)) == ["a\u2028b", "", " c \x85\x0b\x1c", "lone\rreturn", "last"]


line = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])).filter(
    lambda text: not text.endswith("\r")
)


@settings(max_examples=50)
@given(
    lines=st.lists(line, min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
    closed=st.booleans(),
    mark=st.booleans(),
)
def test_any_lines_written_are_read_back_and_counted(tmp_path_factory, lines, end, closed, mark):
    # A first character U+FEFF is read as a byte order mark; an empty last line needs its newline.
    mark = mark or lines[0].startswith("\ufeff")
    # One line with a return and no end has the form of an old Mac's file.
    closed = closed or not lines[-1] or "\r" in lines[0]
    path = tmp_path_factory.mktemp("lines") / "x"
    write(path, "\ufeff" * mark + end.join(lines) + end * closed)
    assert list(read_lines(path)) == lines
