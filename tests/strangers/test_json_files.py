import os

import pytest

from t2t_repro.strangers.json_files import read_json


def test_json_is_bounded(tmp_path):
    path = tmp_path / "a.json"
    for content in (b"[" * 100_000, b" " * (2**24 + 1), b"\xff", b"1" * 5000):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"nested|more than|codec|digits"):
            read_json(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no such file"):
        read_json(tmp_path / "pipe")
