"""A folder comes out of its pieces as it went in, and only whole."""

import json
import subprocess
import sys

import numpy as np
import pytest

import pieces
import put_together
from tests.processes import CHECKOUT

PUT_TOGETHER = CHECKOUT / "scripts" / "gpu" / "put_together.py"


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(pieces, "CHUNK", 40_000)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "folder"
    (made / "bin").mkdir(parents=True)
    # Incompressible, so that there are several pieces.
    noise = np.random.default_rng(1).bytes(150_000)
    (made / "noise").write_bytes(noise)
    (made / "zeros").write_bytes(bytes(200_000))
    (made / "bin" / "program").write_text("#!/bin/sh\n")
    (made / "bin" / "program").chmod(0o755)
    return made


def content(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o111)
        for path in paths
    }


def test_a_folder_comes_out_as_it_went_in(folder, tmp_path):
    out, kept = tmp_path / "out", tmp_path / "kept"
    sizes = pieces.pack(folder, out, 90_000, level=1)
    assert len(sizes) == 2
    assert max(sizes) <= 90_000
    for number in range(len(sizes), 0, -1):
        assert pieces.missing(kept)
        pieces.keep(out / str(number), kept)
    assert pieces.missing(kept) == []
    pieces.unpack(kept, tmp_path / "again")
    assert content(tmp_path / "again") == content(folder)


def test_what_is_missing_is_named(folder, tmp_path):
    out, kept = tmp_path / "out", tmp_path / "kept"
    pieces.pack(folder, out, 45_000, level=1)
    assert pieces.missing(kept) == ["1"]
    pieces.keep(out / "2", kept)
    assert pieces.missing(kept) == ["1", "3", "4"]


def test_pieces_of_before_do_not_stay(folder, tmp_path):
    pieces.pack(folder, tmp_path / "out", 45_000, level=1)
    (folder / "noise").unlink()
    assert len(pieces.pack(folder, tmp_path / "out", 45_000, level=1)) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["1"]


def test_killed_it_leaves_the_pieces_of_before_and_nothing_among_them(
    folder, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    pieces.pack(folder, out, 45_000, level=1)
    before = content(out)

    def interrupted(*arguments):
        yield from list(compressed(*arguments))[:2]
        raise KeyboardInterrupt

    compressed = pieces._compressed
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "_compressed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pieces.pack(folder, out, 10**6, level=1)
    assert content(out) == before
    pieces.pack(folder, out, 10**6, level=1)
    assert [path.name for path in out.iterdir()] == ["1"]
    assert not list(tmp_path.glob("*.partial"))


def test_a_damaged_piece_and_one_of_another_set_are_refused(folder, tmp_path):
    out, other, kept = tmp_path / "out", tmp_path / "other", tmp_path / "kept"
    pieces.pack(folder, out, 10**6, level=1)
    (folder / "zeros").write_bytes(bytes(3))
    pieces.pack(folder, other, 10**6, level=1)
    pieces.keep(out / "1", kept)
    with pytest.raises(SystemExit, match="of another set"):
        pieces.keep(other / "1", kept)
    with pytest.raises(SystemExit, match="is no piece"):
        pieces.keep(tmp_path, kept)
    chunk = kept / "001.xz"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    with pytest.raises(SystemExit, match=r"001\.xz is damaged"):
        pieces.unpack(kept, tmp_path / "again")


def test_an_environment_is_made_when_the_last_piece_arrives(folder, tmp_path):
    (folder / "carried_package.py").write_text("VALUE = 5\n")
    sizes = pieces.pack(folder, tmp_path / "out", 90_000, level=1)
    assert len(sizes) == 2
    root = tmp_path / "root"

    def call(piece, *command):
        words = [sys.executable, PUT_TOGETHER, tmp_path / "out" / piece, f"--root={root}"]
        return subprocess.run([*words, *command], capture_output=True, text=True)

    command = ["--", "python", "-c", "import carried_package; print(carried_package.VALUE)"]
    early = call("1", *command)
    assert early.returncode == 1
    assert "pieces that have not arrived: 2" in early.stdout
    assert "was not run" in early.stderr
    done = call("2", *command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5"
    # The same piece once more does no harm; a command's status is passed on.
    again = call("1", "--", "python", "-c", "raise SystemExit(7)")
    assert again.returncode == 7
    # Another set is not taken for what is there.
    (folder / "zeros").unlink()
    pieces.pack(folder, tmp_path / "out", 10**6, level=1)
    other = call("1", "--", "python", "-c", "raise SystemExit(7)")
    assert other.returncode == 1
    assert "out/1 is of another set than what is in " in other.stderr
    sourced = subprocess.run(["bash", "-c", f'. {root}/env.sh; python -c "import carried_package"'])
    assert sourced.returncode == 0


def test_the_machine_s_libraries_get_the_names_that_tensorflow_opens(tmp_path, monkeypatch):
    cuda = tmp_path / "cuda"
    cuda.mkdir()
    (cuda / "libcublas.so.13").touch()
    (cuda / "libcudnn.so.9").touch()
    monkeypatch.setattr(put_together, "SYSTEM", (str(cuda),))
    monkeypatch.setattr(put_together, "sysconfig", _NoPackages)
    carried = tmp_path / "root" / "site" / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.12"
    carried.parent.mkdir(parents=True)
    carried.touch()
    put_together.link_libraries(tmp_path / "root")
    links = {path.name: path.resolve() for path in (tmp_path / "root" / "lib").iterdir()}
    assert links == {
        "libcublas.so.12": cuda / "libcublas.so.13",
        "libcudnn.so.9": cuda / "libcudnn.so.9",
        "libcudart.so.12": carried,
    }
    library_path = put_together.environment(tmp_path / "root")["LD_LIBRARY_PATH"].split(":")
    assert library_path[:2] == [str(tmp_path / "root" / "lib"), str(cuda)]


class _NoPackages:
    @staticmethod
    def get_paths():
        return {"purelib": "/nonexistent"}


def test_the_list_names_the_pieces_of_all(folder, tmp_path):
    pieces.pack(folder, tmp_path / "out", 45_000, level=1)
    listed = json.loads((tmp_path / "out" / "3" / pieces.LIST).read_text())
    assert list(listed) == ["1", "2", "3", "4"]
    for piece, chunks in listed.items():
        assert all((tmp_path / "out" / piece / name).is_file() for name in chunks)
