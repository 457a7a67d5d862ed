"""How often a translation was killed is what was done, not what was asked for."""

import json
import sys

import pytest

import stream

# In place of translate: so many lines a call, in the journal that the real one keeps.
TRANSLATE = """#!/bin/sh
for word in "$@"; do case "$word" in --output=*) out="${word#*=}" ;; esac; done
mkdir -p "$out.partial"
echo '{"note": {"lines": 5}}' >> "$out.partial/journal"
if [ "$(wc -l < "$out.partial/journal")" -lt 3 ]; then exec sleep 60; fi
sleep 1.5
exit STATUS
"""


def translate(tmp_path, monkeypatch, lines, status=0):
    program = tmp_path / "translate"
    program.write_text(TRANSLATE.replace("STATUS", str(status)))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return stream.translate(tmp_path, lines, kills=2)


def test_it_is_killed_at_even_shares_and_goes_on(tmp_path, monkeypatch):
    samples, killed = translate(tmp_path, monkeypatch, lines=15)
    assert killed == 2
    assert [sample["lines"] for sample in samples][:2] == [5, 10]


def test_what_is_done_before_is_not_begun_again(tmp_path, monkeypatch):
    (tmp_path / "out.partial").mkdir()
    line = json.dumps({"note": {"lines": 0}})
    (tmp_path / "out.partial" / "journal").write_text(f"{line}\n{line}\n")
    samples, killed = translate(tmp_path, monkeypatch, lines=10_000)
    assert killed == 0
    assert {sample["lines"] for sample in samples} == {5}


def test_one_that_ends_badly_is_not_taken_for_killed(tmp_path, monkeypatch):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "journal").write_text("{}\n{}\n")
    with pytest.raises(RuntimeError, match="ended with status 3"):
        translate(tmp_path, monkeypatch, lines=10_000, status=3)
