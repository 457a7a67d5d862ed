"""Messages that a person can read, whatever a file holds."""

import pytest

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
        ("Grüße, 世界 {}", "Grüße, 世界 {}"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("one\n\ttwo\r", "one\n\ttwo\\r"),
        ("\u202egnp.exe\x9b", "\\u202egnp.exe\\x9b"),
        ("\ud800", "\\ud800"),
    ],
)
def test_a_text_of_anyone_s_commands_no_terminal(text, shown):
    assert printable(text) == shown
