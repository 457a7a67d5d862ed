"""Files that grow block by block: killed at any operation on files, they end the same."""

import errno
import functools
import itertools
import mmap
import os
import signal
import sys
from pathlib import Path

import pytest

from t2t_repro.command_line import resumable_lines as block_output
from t2t_repro.command_line.block_work import work_in_blocks
from t2t_repro.command_line.line_blocks import AlignedTexts
from t2t_repro.command_line.resumable_lines import ResumableFiles
from t2t_repro.errors import UserError
from tests.faults.injection import Fault, Place, _on_event
from tests.processes import in_child

BLOCKS = [["a", "b"], ["", "c d"], ["e"]]
IDENTITY = {"--n_best": 1, "weights": "1234", "BeamSearch.beam_size": "4"}


def write(folder, identity=IDENTITY, blocks=BLOCKS):
    """Writes what is left; the digest of a block is its number."""
    paths = {"output": str(folder / "out"), "alignments": str(folder / "aligned")}
    with ResumableFiles(paths, identity) as files:
        done = 0
        for number, block in enumerate(blocks, start=1):
            if done >= files.done and not files.finished:
                assert files.done == done
                upper = [line.upper() for line in block]
                files.append(len(block), str(number), {"output": block, "alignments": upper})
                assert files.done == done + len(block)
            done += len(block)
        files.finish()


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_killed_at_any_operation_it_ends_the_same(tmp_path):
    kills = 0
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "out").write_text("of before\n")

        def killed(number=number, folder=folder):
            place = Place(mmap.mmap(-1, 64))
            sys.addaudithook(functools.partial(_on_event, Fault(write=number), place))
            write(folder)

        status = in_child(killed)
        if (folder / "out").read_text() != "of before\n":
            # Whole, or not there.
            assert (folder / "out").read_text() == "a\nb\n\nc d\ne\n"
        if status:
            assert status == -signal.SIGKILL
            kills += 1
            write(folder)
        assert listing(folder) == ["aligned", "out"]
        assert (folder / "out").read_text() == "a\nb\n\nc d\ne\n"
        assert (folder / "aligned").read_text() == "A\nB\n\nC D\nE\n"
        if not status:
            break
    assert kills > 15


class Interrupted(Exception):
    """Stands for whatever ends a run."""


def begin(folder, blocks=1, identity=IDENTITY):
    """What a run that was ended leaves."""

    def ending():
        yield from BLOCKS[:blocks]
        raise Interrupted

    with pytest.raises(Interrupted):
        write(folder, identity, ending())


def test_what_an_error_ends_is_kept_and_said(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    begin(tmp_path, blocks=0)
    assert listing(tmp_path) == []
    begin(tmp_path, blocks=2)
    assert listing(tmp_path) == ["out.partial"]
    assert "4 lines are done in" in caplog.text
    with ResumableFiles({"output": str(tmp_path / "out"), "alignments": "x"}, IDENTITY) as files:
        assert (files.done, files.digest) == (4, "2")
    write(tmp_path)
    assert (tmp_path / "out").read_text() == "a\nb\n\nc d\ne\n"


@pytest.mark.parametrize(
    ("changed", "differing"),
    [
        ({"--n_best": 2}, r"\(--n_best 1 there, 2 now\)"),
        ({"BeamSearch.beam_size": None}, "BeamSearch.beam_size '4' there, None now"),
        ({"weights": "5", "--n_best": 2, "a": 1, "b": 2}, "; 1 more"),
    ],
)
def test_what_another_command_began_is_not_gone_on_with(tmp_path, changed, differing):
    begin(tmp_path)
    before = listing(tmp_path / "out.partial")
    with pytest.raises(UserError, match=differing) as error:
        write(tmp_path, IDENTITY | changed)
    assert f"delete {tmp_path / 'out'}.partial to begin anew" in str(error.value)
    assert listing(tmp_path / "out.partial") == before
    write(tmp_path)


@pytest.mark.parametrize("kind", ["file", "folder", "identity"])
def test_what_somebody_else_has_there_is_left_alone(tmp_path, kind):
    partial = tmp_path / "out.partial"
    if kind == "file":
        partial.write_text("mine")
    else:
        partial.mkdir()
        (partial / ("identity.json" if kind == "identity" else "mine")).write_text("mine")
    with pytest.raises(UserError, match=r"out\.partial is there already, and is not what"):
        write(tmp_path)
    assert partial.read_text() == "mine" if kind == "file" else len(listing(partial)) == 1
    assert listing(tmp_path) == ["out.partial"]


def test_a_second_process_is_told_of_the_first(tmp_path):
    path = str(tmp_path / "out")
    with ResumableFiles({"output": path}, IDENTITY) as files:
        files.append(1, "1", {"output": ["a"]})

        def second():
            with pytest.raises(UserError, match=f"--output={path} is in use by process"):
                ResumableFiles({"output": path}, IDENTITY)

        assert in_child(second) == 0
        files.append(1, "2", {"output": ["b"]})
        files.finish()
    assert Path(path).read_text() == "a\nb\n"


def test_what_is_said_to_be_there_is_on_the_disk(tmp_path, monkeypatch):
    """Before the word that all is done, all is; before what one goes on from is gone, the names."""
    on_disk, fsync, replace, unlink = set(), os.fsync, os.replace, Path.unlink

    def synced(number):
        on_disk.add(os.fstat(number).st_ino)
        fsync(number)

    def is_on_disk(*paths):
        return {path.stat().st_ino for path in paths} <= on_disk

    def renamed(before, after):
        folder = tmp_path / "out.partial"
        if Path(after).name == "finished":
            assert is_on_disk(folder / "output", folder / "alignments")
        if Path(after).name in ("out", "aligned"):
            assert is_on_disk(folder, Path(before))
            on_disk.discard(tmp_path.stat().st_ino)
        replace(before, after)

    def unlinked(path, **options):
        assert path.name != "identity.json" or is_on_disk(tmp_path)
        unlink(path, **options)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(Path, "unlink", unlinked)
    write(tmp_path)
    assert listing(tmp_path) == ["aligned", "out"]


def test_a_folder_deleted_meanwhile(tmp_path):
    with ResumableFiles({"output": str(tmp_path / "out")}, IDENTITY) as files:
        files.append(1, "1", {"output": ["a"]})
        os.rename(tmp_path / "out.partial", tmp_path / "away")
        with pytest.raises(UserError, match=r"out\.partial was deleted while it was written"):
            files.append(1, "2", {"output": ["b"]})


@pytest.mark.parametrize(
    ("lines", "message"),
    [(["f", "g"], "other lines than"), (["a", "b", "c"], "of 2 lines, and the input has more")],
)
def test_whole_files_are_put_in_place_for_their_own_input_alone(
    tmp_path, monkeypatch, lines, message
):
    def translate(lines):
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
        texts = AlignedTexts({"input": str(tmp_path / "in")})
        outputs = {"output": str(tmp_path / "out")}

        def upper(block):
            return {"output": [line.upper() for line in block.texts["input"]]}

        work_in_blocks("translate", texts, upper, outputs, lambda: IDENTITY)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(block_output, "_put", full)
    with pytest.raises(OSError, match="No space"):
        translate(["a", "b"])
    monkeypatch.undo()
    with pytest.raises(UserError, match=message):
        translate(lines)
    translate(["a", "b"])
    assert (tmp_path / "out").read_text() == "A\nB\n"
