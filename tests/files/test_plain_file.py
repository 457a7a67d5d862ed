import os
from pathlib import Path

import pytest

from t2t_repro.files.plain_file import read_at_most


def test_a_file_has_as_many_bytes_as_it_may(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 9)
    assert read_at_most(path, 9) == b"x" * 9
    with pytest.raises(ValueError, match="it has more than 8 bytes"):
        read_at_most(path, 8)


def test_a_file_without_end_and_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero", "", "nowhere"):
        with pytest.raises(ValueError, match="no such file"):
            read_at_most(tmp_path / name, 9)
    # Its size says 0 bytes; there are as many as the machine has memory for.
    if (endless := Path("/proc/self/pagemap")).exists():
        assert endless.stat().st_size == 0
        with pytest.raises((ValueError, OSError)):
            read_at_most(endless, 4096)
    sparse = tmp_path / "sparse"
    sparse.touch()
    os.truncate(sparse, 10**11)
    with pytest.raises(ValueError, match="more than 4,096 bytes"):
        read_at_most(sparse, 4096)
