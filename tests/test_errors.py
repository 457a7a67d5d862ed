"""Messages that a person can read, whatever a file holds."""

import pytest

from t2t_repro.command_line.program import AboveBars
from t2t_repro.errors import UserError, printable, reason_of


def message(size):
    return f"it begins with '{'x' * size}', expected '<pad>_': mend it."


@pytest.mark.parametrize("size", [0, 1, 1900])
def test_a_message_is_kept(size):
    assert str(UserError(message(size))) == message(size)


def test_of_a_long_message_beginning_and_end_are_kept():
    shown = str(UserError(message(10**6)))
    assert shown.startswith("it begins with 'xxx")
    assert shown.endswith("xxx', expected '<pad>_': mend it.")
    assert len(shown) < 2000
    assert " ... " in shown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "{{function_node __wrapped__SaveV2_x}} a/b; No space left [Op:SaveV2]",
            "a/b; No space left",
        ),
        ("the first\nthe second", "the first"),
        (
            "Graph execution error:\n\nDetected at node a/b defined at (most recent call last):\n"
            "<stack traces unavailable>\nOOM when allocating\n\t [[{{node a}}]] [Op:__f]",
            "OOM when allocating",
        ),
        (
            "Graph execution error:\n\nDetected at node a defined at (most recent call last):\n"
            '  File "f.py", line 1, in f\n\n  File "g.py", line 2, in g\n\nNo space\n',
            "No space",
        ),
        ("", "OSError"),
    ],
)
def test_a_reason_is_a_line_without_tensorflow_s_own_words(text, reason):
    assert reason_of(OSError(text)) == reason


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b[2J\x9b31m", r"\x1b[2J\x9b31m"),
        ("abc\rdef\b\x7f", r"abc\rdef\x08\x7f"),
        # What follows would be read from the right.
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udcff", r"\udcff"),
        ("Fr\u00fchst\u00fcck \u4f60\u597d", "Fr\u00fchst\u00fcck \u4f60\u597d"),
    ],
)
def test_no_text_steers_a_terminal(text, shown, capsys):
    assert str(UserError(f"the name {text}")) == f"the name {shown}"
    assert printable(f"{text}\n\t{text}") == f"{shown}\n\t{shown}"
    AboveBars().write(f"a line {text}\n")
    assert capsys.readouterr().err == f"a line {shown}\n"


def test_a_message_is_one_line():
    assert str(UserError("the first\nthe second")) == "the first the second"
