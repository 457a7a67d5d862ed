"""Texts that gin would parse for hours, or that Python cannot parse: refused in a moment."""

import time

import pytest

from t2t_repro.config.gin_text import statements
from t2t_repro.errors import UserError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # gin joins them one by one, and parses what it has at each.
        ("a = (" + "'x' " * 200_000 + ")", "line 1: more than 100 texts one behind the other"),
        ("a = (\n" + "'x'  # x\n" * 101 + ")", "line 102: more than 100 texts"),
        ("a = 0x" + "f" * 5000, "line 1: a number of more than 400 characters"),
        ("a = " + "1" * 5000, "line 1: a number of more than 400 characters"),
        ("\na = " + "[" * 51 + "]" * 51, "line 2: more than 50 brackets deep"),
        ("a = 1\n" * 30_000, "more than 100,000 words"),
        ("#\n" * 100_000, "more than 100,000 words"),
    ],
)
def test_what_no_person_writes_is_refused_at_once(text, message):
    began = time.process_time()
    with pytest.raises(UserError, match=f"^gin: a.gin(, | has ){message}"):
        statements(text, "a.gin")
    assert time.process_time() - began < 10


def test_what_a_person_may_write_is_taken():
    files = ", ".join(f"('a{number}.en', 'a{number}.de')" for number in range(5000))
    text = f"a = [{files}]\nb = {'[' * 50}{']' * 50}\nc = ({'1' * 400}, {chr(39)}x{chr(39)} 'y')\n"
    assert [one.selector for one in statements(text, "a.gin")] == ["a", "b", "c"]
