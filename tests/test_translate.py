"""`translate` of a long text: killed at any moment, it goes on, and ends as if nothing had been."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest

from t2t_repro.data.subword_model import shared
from t2t_repro.data.subwords import Subwords
from t2t_repro.decoding.translator import Translator
from t2t_repro.training.model_directory import ModelDirectory
from tests.decoding.random_translator import ODD_LINES, random_model, write_subwords
from tests.processes import CHECKOUT

# Of many blocks, so that no machine is done with them before a signal comes.
BLOCK, TIMES = 24, 96
LINES = TIMES * len(ODD_LINES)
# Arguments; a signal, and after how many blocks, and seconds, it comes.
Command = tuple[list[str], int, int, float]

CONFIG = """BeamSearch.beam_size = 2
Translator.max_extra_length = 8
Translator.max_source_length = 24
"""

# Runs commands as `python -m` runs them, in children of a process that has TensorFlow, in blocks of
# few lines. Each is given a signal, or none, some seconds after so many blocks are whole.
DRIVER = f"""
import json, os, runpy, signal, sys, time
from t2t_repro import experiment, line_blocks
line_blocks._LINES = {BLOCK}

def run(arguments, log):
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.argv = ["translate", *arguments]
    runpy.run_module("t2t_repro.translate", run_name="__main__", alter_sys=True)

def blocks():
    try:
        return open("out.partial/journal").read().count("\\n")
    except OSError:
        return 0

for number, (arguments, sent, after_blocks, seconds) in enumerate(json.load(sys.stdin)):
    before = blocks()
    child = os.fork()
    if not child:
        status = 1
        try:
            run(arguments, f"log{{number}}")
            status = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    pid = 0
    if sent:
        while not pid and blocks() < before + after_blocks:
            time.sleep(0.01)
            pid, status = os.waitpid(child, os.WNOHANG)
        if not pid:
            time.sleep(seconds)
            os.kill(child, sent)
    if not pid:
        _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory with odd translations, and text of many blocks."""
    folder = tmp_path_factory.mktemp("long_text")
    subwords = shared(Subwords(write_subwords(folder / "made.model")))
    directory = ModelDirectory(folder / "model")
    model = random_model(subwords.source)
    directory.describe(model, subwords, CONFIG, CONFIG)
    directory.write_imported(model, 1)
    lines = [f"{number} {line}" for number, line in enumerate(ODD_LINES * TIMES)]
    (folder / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def run(folder, *commands):
    """Exit statuses and standard error of commands."""
    standard = ["--model_dir=model", "--input=in", "--output=out"]
    given = [([*standard, *arguments], *ending) for arguments, *ending in commands]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(given),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=500,
    )
    logs = [(folder / f"log{number}").read_text() for number in range(len(given))]
    return list(map(int, done.stdout.split())), logs


def test_killed_at_random_and_resumed_it_is_as_uninterrupted(folder):
    generator = random.Random(os.urandom(8))
    killed: list[Command] = [
        # In a block, or at its end.
        ([], signal.SIGKILL, blocks, generator.uniform(0.0, 0.1))
        for blocks in (1, 2)
    ]
    asked: Command = ([], signal.SIGTERM, 1, generator.uniform(0.0, 0.1))
    differing: Command = (["--n_best=2", "--gin_param=BeamSearch.beam_size = 3"], 0, 0, 0.0)
    whole: Command = (["--output=expected"], 0, 0, 0.0)
    statuses, logs = run(folder, whole, *killed, asked, differing, ([], 0, 0, 0.0))
    assert statuses == [0, *[-signal.SIGKILL] * 2, 128 + signal.SIGTERM, 2, 0], logs[-1]
    assert "the same command goes on from there" in logs[3]
    assert "translate: going on after" in logs[5]
    assert "out.partial was begun by another command (--n_best 1 there, 2 now;" in logs[4]
    assert "BeamSearch.beam_size '2' there, '3' now" in logs[4]
    expected, found = ((folder / name).read_bytes() for name in ("expected", "out"))
    assert found == expected
    assert len(expected.split(b"\n")) == LINES + 1
    assert len(set(expected.split(b"\n"))) > 30
    assert not (folder / "out.partial").exists()
    # A line's number is the text's, not the block's.
    assert f"line {LINES - 3} has" in logs[-1]


def test_another_text_than_was_begun_is_refused_and_a_mended_end_is_not(folder):
    text = (folder / "in").read_bytes()
    end: Command = ([], 0, 0, 0.0)
    assert run(folder, ([], signal.SIGKILL, 2, 0.0))[0] == [-signal.SIGKILL]
    (folder / "in").write_bytes(text.replace(b"1 ", b"one ", 1))
    (status,), (log,) = run(folder, end)
    assert status == 2
    assert "other lines than the input begins with" in log
    (folder / "in").write_bytes(text + b"one more\n")
    (status,), (log,) = run(folder, end)
    (folder / "in").write_bytes(text)
    assert status == 0, log
    assert (folder / "out").read_bytes().count(b"\n") == LINES + 1


def test_alignments_are_written_with_the_translations(folder):
    asked = ["--n_best=2", "--alignments=links"]
    killed: Command = (asked, signal.SIGKILL, 1, 0.0)
    statuses, logs = run(folder, killed, (asked, 0, 0, 0.0))
    assert statuses == [-signal.SIGKILL, 0], logs[-1]
    translated, links = (
        (folder / name).read_text(encoding="utf-8").split("\n") for name in ("out", "links")
    )
    assert len(links) == len(translated) > LINES + 1
    translator = Translator.load(folder / "model")
    lines = (folder / "in").read_text(encoding="utf-8").split("\n")[: len(ODD_LINES)]
    found = translator.translate(lines, n_best=2)
    pairs = [(line, one.text) for line, some in zip(lines, found, strict=True) for one in some]
    expected = translator.align(*map(list, zip(*pairs, strict=True)))
    assert links[: len(expected)] == expected
    assert len(set(expected)) > 8
