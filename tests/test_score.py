"""`score`: the model's log-probability of every pair of two files, or of every subword."""

import json
import signal

import pytest

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import ODD_LINES, random_model, write_subwords
from tests.killed_blocks import CONFIG, Command, run

SOURCES = [f"{number} {line}" for number, line in enumerate(ODD_LINES * 4)]
TARGETS = [*ODD_LINES[::-1], *SOURCES[len(ODD_LINES) :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory, and pairs of three blocks."""
    folder = tmp_path_factory.mktemp("pairs")
    subwords = shared(SentencePieceModel(write_subwords(folder / "made.model")))
    directory = ModelDirectory(folder / "model")
    model = random_model(subwords.source)
    directory.describe(model, subwords, CONFIG, CONFIG)
    directory.write_imported(model, 1)
    for name, lines in {"source": SOURCES, "target": TARGETS}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    subwords = shared(SentencePieceModel(folder / "made.model"))
    translator = Translator(
        [random_model(subwords.source)], subwords, TranslatorSettings(BeamSearch(2), 8, 24)
    )
    return translator.score(SOURCES, TARGETS)


@pytest.fixture(scope="module")
def outcomes(folder):
    """What became of: a whole run, one that was killed, another, the one that goes on; tokens."""
    (folder / "short").write_text("one line\n")
    commands = [
        Command(["--output=whole"]),
        Command(["--output=out"], signal.SIGKILL, 1),
        Command(["--output=out", "--tokens"]),
        Command(["--output=out"]),
        Command(["--output=tokens", "--tokens"]),
        Command(["--output=no", "--source=short"]),
    ]
    standard = ["--model_dir=model", "--source=source", "--target=target"]
    return run("score", standard, commands, folder)


def test_a_line_a_pair_is_log_probability_and_length(folder, outcomes, expected):
    assert outcomes[0].status == 0, outcomes[0].log
    rows = [line.split("\t") for line in (folder / "whole").read_text().split("\n")[:-1]]
    assert len(rows) == len(SOURCES)
    found = [float(row[0]) for row in rows]
    assert found == pytest.approx([one.log_probability for one in expected], rel=1e-5)
    assert [int(row[1]) for row in rows] == [len(one.subwords) for one in expected]
    # A line's number is the text's, not the block's.
    assert f"line {len(SOURCES) - 3}: the source has" in outcomes[0].log


def test_tokens_are_json(folder, outcomes, expected):
    assert outcomes[4].status == 0, outcomes[4].log
    lines = (folder / "tokens").read_text(encoding="utf-8").split("\n")[:-1]
    for found, one in zip(map(json.loads, lines), expected, strict=True):
        assert found["subwords"] == one.subwords
        assert found["truncated"] == one.truncated
        assert found["log_probabilities"] == pytest.approx(one.log_probabilities, abs=1e-4)
        assert found["log_probability"] == pytest.approx(one.log_probability, rel=1e-5)


def test_killed_and_given_again_it_ends_as_uninterrupted(folder, outcomes):
    _, killed, differing, again, *_ = outcomes
    assert killed.status == -signal.SIGKILL
    assert differing.status == 2
    assert "was begun by another command (--tokens False there, True now)" in differing.log
    assert again.status == 0, again.log
    assert "score: going on after" in again.log
    assert (folder / "out").read_bytes() == (folder / "whole").read_bytes()
    assert not (folder / "out.partial").exists()


def test_files_of_different_lengths_are_refused(folder, outcomes):
    status, log = outcomes[-1]
    assert status == 2
    assert f"--source=short has 1 lines, --target=target has {len(TARGETS)} lines" in log
    assert not (folder / "no").exists()
