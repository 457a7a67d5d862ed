"""Messages that a person can read, whatever a file holds."""

import pytest

from t2t_repro.errors import UserError


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
