import os
import signal
import subprocess
import sys

import pytest

from t2t_repro import files
from t2t_repro.errors import UserError

HOLDER = """
import sys, time
from pathlib import Path
from t2t_repro.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "it", "leave it"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock tmp_path/lock."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_one_process_holds_a_lock_and_a_killed_one_frees_it(tmp_path, holder):
    path = tmp_path / "lock"
    for _ in range(2):  # Asking does not take it away.
        with pytest.raises(UserError, match=f"it .* process {holder.pid} on .* leave it"):
            files.exclusive_lock(path, "it", "leave it").__enter__()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with files.exclusive_lock(path, "it", "leave it"):
        assert f"process {os.getpid()} on " in path.read_text()
    assert not path.exists()


@pytest.mark.parametrize("write", [files.whole_file, files.whole_directory])
@pytest.mark.parametrize(
    ("error", "named"),
    [
        (OSError(28, "No space left on device"), "No space left on device: '.*/made'"),
        (RuntimeError("weights: No space left on device [Op:SaveV2]"), "No space .*: '.*/made'"),
        (OSError(13, "Permission denied", "other"), "Permission denied: 'other'"),
        (UserError("x: Permission denied"), "^x: Permission denied$"),
        (RuntimeError("a bug"), "^a bug$"),
    ],
)
def test_an_error_of_the_disk_names_what_is_written(tmp_path, write, error, named):
    with pytest.raises((OSError, RuntimeError, UserError), match=named), write(tmp_path / "made"):
        raise error


@pytest.mark.parametrize("old", [True, False])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, old):
    path = tmp_path / "folder" / "table.png"
    path.parent.symlink_to(tmp_path / "elsewhere")
    if old:
        files.write_whole(path, b"old")
    else:
        (tmp_path / "elsewhere").mkdir()

    def write_half():
        with files.whole_file(path) as aside:
            assert aside.suffix == ".png"
            aside.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [file.read_bytes() for file in path.parent.iterdir()] == [b"old"] * old
    files.write_whole(path, b"new")
    assert [file.read_bytes() for file in path.parent.iterdir()] == [b"new"]


@pytest.mark.parametrize("target", [None, "missing", "empty"])
def test_a_directory_appears_whole_or_not_at_all(tmp_path, target):
    path = tmp_path / "new"
    (tmp_path / "empty").mkdir()
    if target:
        path.symlink_to(target)

    def write(stop):
        with files.whole_directory(path) as aside:
            assert not list(aside.iterdir())
            (aside / "file").touch()
            if stop:
                raise stop

    with pytest.raises(ZeroDivisionError):
        write(ZeroDivisionError)
    assert not [*path.glob("*"), *tmp_path.rglob(".*")]
    write(None)
    assert list(path.iterdir()) == [path / "file"]
    with pytest.raises(OSError, match="not empty"):
        write(None)


def test_a_file_has_at_most_so_many_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 9)
    assert files.read_at_most(path, 9) == b"x" * 9
    with pytest.raises(ValueError, match="more than 8 bytes"):
        files.read_at_most(path, 8)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless", "", "nowhere"):
        with pytest.raises(ValueError, match="no such file"):
            files.read_at_most(tmp_path / name, 9)


def test_json_comes_back_and_what_is_not_json_is_a_value_error(tmp_path):
    path = tmp_path / "file.json"
    files.write_json(path, {"ä": [1, None]})
    assert files.read_json(path) == {"ä": [1, None]}
    for content in (b"[" * 100_000, b"\xff", b"{", b"1" * (2**24 + 1)):
        path.write_bytes(content)
        with pytest.raises(ValueError):  # noqa: PT011
            files.read_json(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="object"):
        files.read_json(path)
