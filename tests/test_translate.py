"""`translate` of a long text: killed at any moment, it goes on, and ends as if nothing had been."""

import os
import pty
import random
import signal
import subprocess
import sys

import pytest

from t2t_repro.decoding.loading import load_translator
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import ODD_LINES, random_model, write_subwords
from tests.killed_blocks import CONFIG, Command, run
from tests.processes import CHECKOUT

# Of many blocks, so that no machine is done with them before a signal comes.
TIMES = 96
LINES = TIMES * len(ODD_LINES)
STANDARD = ["--model_dir=model", "--input=in", "--output=out"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory with odd translations, and text of many blocks."""
    folder = tmp_path_factory.mktemp("long_text")
    subwords = shared(SentencePieceModel(write_subwords(folder / "made.model")))
    directory = ModelDirectory(folder / "model")
    model = random_model(subwords.source)
    directory.describe(model, subwords, CONFIG, CONFIG)
    directory.write_imported(model, 1)
    lines = [f"{number} {line}" for number, line in enumerate(ODD_LINES * TIMES)]
    (folder / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def test_killed_at_random_and_resumed_it_is_as_uninterrupted(folder):
    seed = random.SystemRandom().randrange(2**32)
    generator = random.Random(seed)
    commands = [
        Command(["--output=expected"]),
        # In a block, or at its end.
        *(Command([], signal.SIGKILL, blocks, generator.uniform(0.0, 0.1)) for blocks in (1, 2)),
        Command([], signal.SIGTERM, 1, generator.uniform(0.0, 0.1)),
        Command(["--n_best=2", "--gin_param=BeamSearch.beam_size = 3"]),
        Command([]),
    ]
    statuses, logs = zip(*run("translate", STANDARD, commands, folder), strict=True)
    assert statuses == (0, *[-signal.SIGKILL] * 2, 128 + signal.SIGTERM, 2, 0), (seed, logs[-1])
    assert "the same command goes on from there" in logs[3]
    assert "translate: going on after" in logs[5]
    assert "out.partial was begun by another command (--n_best 1 there, 2 now;" in logs[4]
    assert "BeamSearch.beam_size '2' there, '3' now" in logs[4]
    expected, found = ((folder / name).read_bytes() for name in ("expected", "out"))
    assert found == expected, seed
    assert len(expected.split(b"\n")) == LINES + 1
    assert len(set(expected.split(b"\n"))) > 30
    assert not (folder / "out.partial").exists()
    # A line's number is the text's, not the block's.
    assert f"line {LINES - 3} has" in logs[-1]


def test_what_is_typed_at_a_terminal_is_translated_to_a_file(folder):
    terminal, typed = pty.openpty()
    os.write(terminal, b"the red bird\na tree\n\x04")
    command = ["-m", "t2t_repro.translate", "--model_dir=model", "--output=typed"]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    subprocess.run([sys.executable, *command], stdin=typed, cwd=folder, env=environment, check=True)
    assert (folder / "typed").read_bytes().count(b"\n") == 2


def test_another_text_than_was_begun_is_refused_and_a_mended_end_is_not(folder):
    text = (folder / "in").read_bytes()
    (killed,) = run("translate", STANDARD, [Command([], signal.SIGKILL, 2)], folder)
    assert killed.status == -signal.SIGKILL
    (folder / "in").write_bytes(text.replace(b"1 ", b"one ", 1))
    (refused,) = run("translate", STANDARD, [Command([])], folder)
    assert refused.status == 2
    assert "other lines than the input begins with" in refused.log
    (folder / "in").write_bytes(text + b"one more\n")
    (ended,) = run("translate", STANDARD, [Command([])], folder)
    (folder / "in").write_bytes(text)
    assert ended.status == 0, ended.log
    assert (folder / "out").read_bytes().count(b"\n") == LINES + 1


def test_alignments_are_written_with_the_translations(folder):
    asked = ["--n_best=2", "--alignments=links"]
    commands = [Command(asked, signal.SIGKILL, 1), Command(asked)]
    killed, ended = run("translate", STANDARD, commands, folder)
    assert (killed.status, ended.status) == (-signal.SIGKILL, 0), ended.log
    translated, links = (
        (folder / name).read_text(encoding="utf-8").split("\n") for name in ("out", "links")
    )
    assert len(links) == len(translated) > LINES + 1
    translator = load_translator(folder / "model")
    lines = (folder / "in").read_text(encoding="utf-8").split("\n")[: len(ODD_LINES)]
    found = translator.translate(lines, n_best=2)
    pairs = [(line, one.text) for line, some in zip(lines, found, strict=True) for one in some]
    expected = translator.align(*map(list, zip(*pairs, strict=True)))
    assert links[: len(expected)] == expected
    assert len(set(expected)) > 8
