import errno
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from t2t_repro.errors import UserError
from t2t_repro.files.file_lock import exclusive_lock, locked
from tests.processes import CHECKOUT, in_child

HOLDER = """
import errno, fcntl, os, sys, time
from pathlib import Path

def unknown(*arguments):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

if "without locks" in sys.argv:
    fcntl.flock = unknown
from t2t_repro.files.file_lock import held_alone
with held_alone(Path(sys.argv[1]), "it", "leave it"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder_of(path, *how):
    """A process that holds a lock, until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path, *how],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


@pytest.fixture
def no_locks(monkeypatch):
    """A file system that has none, for this process."""

    def unknown(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", unknown)


def assert_held(path, by=".*"):
    with (
        pytest.raises(UserError, match=f"^it is in use by {by}"),
        exclusive_lock(path, "it", "leave"),
    ):
        pass


def assert_free(path):
    with exclusive_lock(path, "it", "leave it"):
        assert_held(path)


def test_there_is_one_holder_though_the_file_comes_and_goes(tmp_path):
    def hold(_):
        with locked(tmp_path / "lock"):
            os.close(os.open(tmp_path / "held", os.O_CREAT | os.O_EXCL))
            (tmp_path / "held").unlink()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(hold, range(40)))
    assert not list(tmp_path.iterdir())


def test_who_holds_it_is_named_and_a_killed_holder_frees_it(tmp_path):
    path = tmp_path / "model" / "lock"
    with holder_of(path) as holder:
        named = (
            rf"process {holder.pid} on {socket.gethostname()} since "
            r"20[\d :-]{17}: wait for its end, or leave\.$"
        )
        # Asking does not wipe out what it says.
        assert_held(path, named)
        assert_held(path, named)
    assert path.exists()
    with exclusive_lock(path, "the model", "go away"):
        assert f"process {os.getpid()} on" in path.read_text()
    assert not path.exists()


def test_a_folder_made_for_the_lock_goes_with_it_unless_it_is_used(tmp_path):
    path = tmp_path / "model" / "lock"
    with exclusive_lock(path, "the model", "go away"):
        pass
    assert not path.parent.exists()
    with exclusive_lock(path, "the model", "go away"):
        (path.parent / "model.json").touch()
    assert [file.name for file in path.parent.iterdir()] == ["model.json"]


def test_where_a_lock_was_deleted_and_taken_anew_its_first_holder_does_not_free_it(tmp_path):
    path = tmp_path / "model" / "lock"
    with exclusive_lock(path, "it", "leave it") as hold:
        hold()
        shutil.rmtree(path.parent)
        hold()
        assert_held(path)
        path.unlink()
        with holder_of(path) as second:
            with pytest.raises(UserError, match=f"^it is in use by process {second.pid} on"):
                hold()
            assert_held(path)


def test_a_file_that_was_left_stops_nobody(tmp_path):
    path = tmp_path / "lock"
    path.write_text("process 1 on another since 2026-01-01 00:00:00")
    assert_free(path)
    path.mkdir()
    with pytest.raises(OSError, match="directory"), exclusive_lock(path, "it", "leave it"):
        pass


def test_what_can_be_done_where_a_machine_was_lost_is_said(tmp_path):
    path = tmp_path / "lock"
    with exclusive_lock(path, "it", "leave it"):
        path.write_text("process 7 on another since 2026-01-01 00:00:00")
        says = (
            r"process 7 on another since [\d :-]+ \(delete .*/lock if that machine is lost\): wait"
        )
        assert_held(path, says)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs another user")
def test_another_user_s_dead_process_stops_nobody(tmp_path):
    """In a folder that both may write to."""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        with holder_of(folder / "lock"):
            pass

        def hold():
            os.setuid(65534)
            with exclusive_lock(folder / "lock", "it", "leave it"):
                pass

        assert in_child(hold) == 0
    finally:
        shutil.rmtree(folder)


def test_a_file_system_without_locks_has_one_holder_too(tmp_path, no_locks):
    path = tmp_path / "model" / "lock"
    with holder_of(path, "without locks") as holder:
        assert_held(path, f"process {holder.pid} on ")
        assert_held(path, f"process {holder.pid} on ")
    assert path.exists()
    assert_free(path)
    assert not path.exists()


def test_a_lease_that_nobody_renews_runs_out(tmp_path, no_locks):
    path = tmp_path / "lock"
    with exclusive_lock(path, "it", "leave it"):
        marker = path.read_text().replace(socket.gethostname(), "another")
    path.write_text(marker)
    renewal = threading.Timer(1, path.touch)
    renewal.start()
    assert_held(path, r"process \d+ on another: ")
    os.utime(path, (time.time() - 119, time.time() - 119))
    assert_free(path)


def test_a_lease_that_was_lost_is_noticed(tmp_path, no_locks):
    path = tmp_path / "lock"
    with exclusive_lock(path, "it", "leave it") as hold:
        path.unlink()
        hold()
        assert_held(path)
        path.unlink()
        with (
            holder_of(path, "without locks") as second,
            pytest.raises(UserError, match=f"^it is in use by process {second.pid} on"),
        ):
            hold()
