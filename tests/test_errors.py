"""Messages are one line that a person can read, with any content."""

import errno

import pytest

from t2t_repro.command_line.program import AboveBars
from t2t_repro.errors import UserError, printable, reason_of, storage_error


def test_a_message_is_one_line_of_bounded_length():
    assert str(UserError("the first\nthe\tsecond")) == "the first the second"
    shown = str(UserError(f"it begins with {'x' * 10**6}, expected y"))
    assert shown.startswith("it begins with xxx")
    assert shown.endswith("xxx, expected y")
    assert len(shown) < 2000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n{{function_node __wrapped__SaveV2_x}} a/b; No space [Op:SaveV2]", "a/b; No space"),
        (
            "Graph execution error:\n\nDetected at node a defined at (most recent call last):\n"
            '  File "f.py", line 1, in f\n\n<no stack traces>\nNo space\n\t [[{{node a}}]]',
            "No space",
        ),
        ("", "OSError"),
    ],
)
def test_a_reason_is_a_line_without_tensorflow_s_own_words(text, reason):
    assert reason_of(OSError(text)) == reason


def test_a_full_disk_is_not_a_bug_and_a_missing_file_may_be_one():
    full = OSError(errno.ENOSPC, "No space left on device", "train.tokens")
    assert storage_error(full) == "No space left on device: 'train.tokens'"
    assert storage_error(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        # It would turn the direction of what follows.
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("Fr\u00fchst\u00fcck \u4f60\u597d", "Fr\u00fchst\u00fcck \u4f60\u597d"),
    ],
)
def test_no_text_steers_a_terminal(text, shown, capsys):
    assert str(UserError(f"the name {text}")) == f"the name {shown}"
    assert printable(f"{text}\n\t{text}") == f"{shown}\n\t{shown}"
    AboveBars().write(f"a line {text}\n")
    assert capsys.readouterr().err == f"a line {shown}\n"
