"""The prompt at a terminal."""

import os
import pty
import re
import sys

import pytest

from tests.processes import CHECKOUT

CONVERSATION = """
from t2t_repro.command_line.text_lines import converse
converse(lambda lines: iter([f"<{line}>" for line in lines]))
"""


def test_the_arrow_keys_bring_back_earlier_lines():
    pytest.importorskip("readline")
    child, terminal = pty.fork()
    if not child:
        os.environ["PYTHONPATH"] = str(CHECKOUT)
        os.execv(sys.executable, [sys.executable, "-c", CONVERSATION])
    os.write(terminal, b"one\ntwo\n\x1b[A\x1b[A\n\n")
    said = b""
    while True:
        try:
            said += os.read(terminal, 1024)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert re.findall(rb"<(.*?)>", said.replace(b"source> ", b"")) == [b"one", b"two", b"one"]
