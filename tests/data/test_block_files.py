"""Files of whole blocks: whatever a killed process left, they hold the journal's blocks."""

import pytest

from t2t_repro.data.block_files import BlockFiles

NAMES = ("a", "b")


@pytest.fixture
def opened(tmp_path):
    def open_files():
        return BlockFiles(tmp_path / "work" / "journal", {name: tmp_path / name for name in NAMES})

    return open_files


def write(opened, count):
    with opened() as files:
        for number in range(len(files.blocks), count):
            files.append({"a": b"%d" % number, "b": b"x" * number}, {"number": number})


def test_blocks_follow_on_each_other(opened, tmp_path):
    write(opened, 2)
    write(opened, 4)
    assert (tmp_path / "a").read_bytes() == b"0123"
    with opened() as files:
        assert [block.note["number"] for block in files.blocks] == [0, 1, 2, 3]
        assert [block.ends for block in files.blocks][2] == {"a": 3, "b": 3}
        assert not files.finished
        files.finish()
    with opened() as files:
        assert files.finished
        assert len(files.blocks) == 4


@pytest.mark.parametrize("finished", [True, False])
def test_cut_anywhere_the_journal_gives_the_same_files_in_the_end(opened, tmp_path, finished):
    write(opened, 4)
    if finished:
        with opened() as files:
            files.finish()
    journal = tmp_path / "work" / "journal"
    whole, expected = journal.read_bytes(), [(tmp_path / name).read_bytes() for name in NAMES]
    for length in range(len(whole)):
        journal.write_bytes(whole[:length])
        with opened() as files:
            assert not files.finished
            assert len(files.blocks) == min(whole[:length].count(b"\n"), 4)
        write(opened, 4)
        assert [(tmp_path / name).read_bytes() for name in NAMES] == expected


def test_what_is_not_in_the_journal_is_cut_off_and_what_files_lack_is_not_whole(opened, tmp_path):
    write(opened, 4)
    with (tmp_path / "a").open("ab") as file:
        file.write(b"half a block")
    (tmp_path / "b").write_bytes(b"x" * 5)  # The last block ended at 6.
    with opened() as files:
        assert len(files.blocks) == 3
    assert (tmp_path / "a").read_bytes() == b"012"
    assert (tmp_path / "b").read_bytes() == b"xxx"
