"""What is on the disk itself before something else relies on it."""

import errno
import os

import pytest

from t2t_repro.files.durable import sync
from t2t_repro.files.whole_files import write_whole


def test_a_file_system_need_not_know_how_to_sync_folders(tmp_path, monkeypatch):
    def invalid(number):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", invalid)
    sync(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Invalid argument"):
        sync(tmp_path / "file")


def test_what_a_file_holds_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def synced(number):
        done.append("sync")
        fsync(number)

    def renamed(before, after):
        done.append("rename")
        replace(before, after)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_whole(tmp_path / "folder" / "file", b"content")
    assert done == ["sync", "rename"]
    assert (tmp_path / "folder" / "file").read_bytes() == b"content"
