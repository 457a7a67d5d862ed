"""Texts are worked on block by block; a stopped command goes on where it was; the prompt."""

import sys
from contextlib import nullcontext, suppress
from io import BufferedReader, BytesIO, TextIOWrapper

import pytest

from t2t_repro import progress
from t2t_repro.command_line import text_lines
from t2t_repro.command_line.text_lines import count_lines, output_lines, read_blocks, work_in_blocks
from t2t_repro.data.line_files import COMPRESSED
from t2t_repro.decoding.search import Translation
from t2t_repro.errors import UserError

LINES = ["a", "", "b c", "\u2028d\x85", "e\r", "ä", "{}"]
SETTINGS = {"--n_best": 1, "the weights": ["12"]}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(text_lines, "_LINES", 2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in LINES).encode())
    return tmp_path


def upper(block, report=None):
    """An output with a line a line, and one with a line for each but the blank ones."""
    lines = block.texts["input"]
    return {"output": [x.upper() for x in lines], "more": [f"{x}!" for x in lines if x]}


def write(work=upper, settings=SETTINGS, source="in", output="out"):
    outputs = {"output": output, "more": "more"}
    work_in_blocks("upper", read_blocks({"input": source}), outputs, lambda: settings, work)


def stopped_after(blocks):
    """Work that is stopped after some blocks, as by Ctrl-C."""
    left = iter(range(blocks))

    def work(block, report):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return upper(block)

    return work


def assert_written(folder, lines=tuple(LINES)):
    lines = [line.removesuffix("\r") for line in lines]
    expected = {"out": [x.upper() for x in lines], "more": [f"{x}!" for x in lines if x]}
    for name, of_file in expected.items():
        assert (folder / name).read_bytes() == "".join(f"{x}\n" for x in of_file).encode()
    assert sorted(path.name for path in folder.iterdir()) == ["in", "more", "out"]


def test_it_goes_on_after_the_blocks_that_are_there(folder):
    write()
    assert_written(folder)
    (folder / "out").write_text("of before\n")
    with pytest.raises(KeyboardInterrupt):
        write(stopped_after(2))
    assert (folder / "out").read_text() == "of before\n"
    seen = []

    def work(block, report):
        seen.append(block.first)
        return upper(block)

    write(work)
    assert seen == [5, 7]
    assert_written(folder)


def test_it_goes_on_after_half_a_line(folder):
    with pytest.raises(KeyboardInterrupt):
        write(stopped_after(2))
    whole = (folder / "out.partial").read_bytes()
    for left in range(len(whole.splitlines()[0]) + 1, len(whole), 7):
        (folder / "out.partial").write_bytes(whole[:left])
        write()
        assert_written(folder)


def test_an_output_is_compressed_as_its_name_says_also_after_a_stop(folder):
    for suffix, opened in COMPRESSED.items():
        for work in (stopped_after(2), upper):
            with suppress(KeyboardInterrupt):
                write(work, output=f"out{suffix}")
        with opened(f"out{suffix}", "rt", encoding="utf-8", newline="\n") as file:
            assert [line.rstrip("\n") for line in file] == [x.strip("\r").upper() for x in LINES]


def test_an_empty_input_has_an_empty_output(folder):
    (folder / "in").write_text("")
    write()
    assert_written(folder, [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"settings": SETTINGS | {"--n_best": 2}}, "--n_best"),
        ({"source": "other"}, "the input"),
        ({"source": "shorter"}, "the input"),
    ],
)
def test_another_command_is_refused(folder, change, said):
    (folder / "other").write_text("a\n\nB c\n")
    (folder / "shorter").write_text("a\n\n")
    with pytest.raises(KeyboardInterrupt):
        write(stopped_after(2))
    before = (folder / "out.partial").read_bytes()
    with pytest.raises(UserError, match=rf"out\.partial was begun with .*{said}.*delete"):
        write(**change)
    assert (folder / "out.partial").read_bytes() == before


def test_another_program_s_file_stays(folder):
    (folder / "out.partial").write_bytes(b"my notes\nlast")
    with pytest.raises(UserError, match="another program's file"):
        write()
    assert (folder / "out.partial").read_bytes() == b"my notes\nlast"


def test_two_commands_do_not_write_the_same_file(folder):
    def work(block, report):
        with pytest.raises(UserError, match="--output=out is in use by process"):
            write()
        return upper(block)

    write(work)
    assert_written(folder)


def test_blocks_belong_together_line_by_line_and_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(text_lines, "_CHARACTERS", 3)
    (folder / "b").write_text("1234\n5\n6\n7\n8\n9\n0\n")
    blocks = list(read_blocks({"input": "in", "b": "b"}))
    found = [(block.first, len(block.texts["b"])) for block in blocks]
    assert found == [(1, 1), (2, 2), (4, 1), (5, 2), (7, 1)]
    assert "".join(line for block in blocks for line in block.texts["b"]) == "1234567890"


def test_unequal_inputs_are_refused_before_the_work(folder, monkeypatch):
    (folder / "b").write_text("1\n2\n")
    inputs: dict[str, str | None] = {"input": "in", "prefix": "b"}
    with pytest.raises(UserError, match="--input=in has 7 lines, --prefix=b has 2 lines"):
        count_lines(inputs)
    # Standard input cannot be counted before.
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BufferedReader(BytesIO(b"1\n2\n3\n"))))
    inputs["input"] = None
    with pytest.raises(UserError, match="--prefix=b has 2 lines"):
        work_in_blocks("", read_blocks(inputs), {"output": None}, dict, lambda *_: {"output": []})


@pytest.mark.parametrize("output", [None, "out"])
def test_the_progress_counts_within_a_block(folder, monkeypatch, caplog, output):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    caplog.set_level("INFO", logger="absl")

    def work(block, report):
        # Work that is done again, such as on the halves of a long sentence, is not counted again.
        for share in (0.5, 1.0, 0.5):
            report(share)
        return {"output": block.texts["input"]}

    work_in_blocks("work", read_blocks({"input": "in"}), {"output": output}, dict, work)
    counts = [int(line.split()[1]) for line in caplog.messages]
    assert sorted({*counts}) == [*range(1, len(LINES)), len(LINES)]
    assert counts == sorted(counts)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"output": None, "input": "in"}, None),
        ({"output": "-", "input": "-"}, None),
        ({"output": "new", "input": None}, None),
        ({"output": "other", "input": "in"}, None),
        ({"output": "in", "input": "other", "reference": ["x", "in"]}, "of --reference too"),
        ({"output": "link", "input": "in"}, "of --input too"),
        ({"output": "in", "glossary": "in"}, "of --glossary too"),
        ({"output": "new", "alignments": "new"}, "of --alignments too"),
        ({"output": "."}, "--output=.: expected a file"),
        ({"output": "nowhere/new"}, "--output=nowhere/new: expected a file"),
        ({"alignments": "-"}, "--alignments=-: expected a file"),
    ],
)
def test_an_output_is_a_file_of_its_own(folder, give, given, refusal):
    (folder / "other").touch()
    (folder / "link").hardlink_to(folder / "in")
    give(**given)
    with pytest.raises(UserError, match=refusal) if refusal else nullcontext():
        text_lines.check_output(next(iter(given)))


def test_one_input_is_standard_input(folder, give):
    give(input="-", prefix="in", output="-")
    assert text_lines.read_input("in") == [line.removesuffix("\r") for line in LINES]
    give(input=None, prefix="-")
    with pytest.raises(UserError, match="--input and --prefix are standard input"):
        text_lines.read_input(None)


def test_a_score_stands_between_its_line_s_number_and_its_text():
    found = [Translation("a\nb", -1.5), Translation("c", -2.0, finished=False)]
    assert [*output_lines(3, found, False)] == ["a b", "c"]
    assert [*output_lines(3, found, True)] == ["3\t-1.5000\ta b", "3\t-2.0000\tc\tunfinished"]


def test_the_prompt_translates_line_by_line(monkeypatch, capsys):
    lines = iter(["one", "two", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    text_lines.converse(lambda lines: [f"<{line}>" for line in lines])
    assert capsys.readouterr().out == "<one>\n<two>\n"
