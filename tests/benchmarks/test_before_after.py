"""What cannot be compared is one line."""

from contextlib import ExitStack

import pytest

import before_after
from tests.processes import CHECKOUT

SCRIPT = """
import json
print(json.dumps({"unsupported": "no float16"}))
"""


def test_what_a_checkout_cannot_do_is_said(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(SCRIPT)
    with ExitStack() as stack, pytest.raises(SystemExit, match="cannot do that: no float16"):
        before_after.warm_worker(stack, script, tmp_path, [], tmp_path / "log")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([f"--before={CHECKOUT}", "--cases=training base"], "--cases: 'training base', expected"),
        (["--before=nope"], "--before: nope is no checkout: it has no benchmarks/worker.py"),
    ],
)
def test_what_cannot_be_meant_is_said_at_once(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr("sys.argv", ["before_after.py", *arguments])
    with pytest.raises(SystemExit, match="2"):
        before_after.main()
    assert f"error: {said}" in capsys.readouterr().err.splitlines()[-1]
