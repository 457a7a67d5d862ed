"""`score`: the model's log-probability of every pair of two files, or of every subword."""

import json
import os
import signal
import subprocess
import sys

import pytest

from t2t_repro.data.subword_model import shared
from t2t_repro.data.subwords import Subwords
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.translator import Translator
from t2t_repro.training.model_directory import ModelDirectory
from tests.decoding.random_translator import ODD_LINES, random_model, write_subwords
from tests.processes import CHECKOUT
from tests.test_translate import CONFIG, DRIVER

SOURCES = [f"{number} {line}" for number, line in enumerate(ODD_LINES * 4)]
TARGETS = [*ODD_LINES[::-1], *SOURCES[len(ODD_LINES) :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model directory, and pairs of three blocks."""
    folder = tmp_path_factory.mktemp("pairs")
    subwords = shared(Subwords(write_subwords(folder / "made.model")))
    directory = ModelDirectory(folder / "model")
    model = random_model(subwords.source)
    directory.describe(model, subwords, CONFIG, CONFIG)
    directory.write_imported(model, 1)
    for name, lines in {"source": SOURCES, "target": TARGETS}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    subwords = shared(Subwords(folder / "made.model"))
    translator = Translator(random_model(subwords.source), subwords, BeamSearch(2), 8, 24)
    return translator.score(SOURCES, TARGETS)


@pytest.fixture(scope="module")
def outcomes(folder):
    """What became of: a whole run, one that was killed, another, the one that goes on; tokens."""
    flags = ["--model_dir=model", "--source=source", "--target=target"]
    ways: list[tuple[list[str], int, int]] = [
        (["--output=whole"], 0, 0),
        (["--output=out"], signal.SIGKILL, 1),
        (["--output=out", "--tokens"], 0, 0),
        (["--output=out"], 0, 0),
        (["--output=tokens", "--tokens"], 0, 0),
        (["--output=no", "--source=short"], 0, 0),
    ]
    (folder / "short").write_text("one line\n")
    given = [([*flags, *arguments], sent, blocks, 0.0) for arguments, sent, blocks in ways]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER.replace("translate", "score")],
        input=json.dumps(given),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=500,
    )
    logs = [(folder / f"log{number}").read_text() for number in range(len(ways))]
    return list(zip(map(int, done.stdout.split()), logs, strict=True))


def test_a_line_a_pair_is_log_probability_and_length(folder, outcomes, expected):
    assert outcomes[0][0] == 0, outcomes[0][1]
    rows = [line.split("\t") for line in (folder / "whole").read_text().split("\n")[:-1]]
    assert len(rows) == len(SOURCES)
    found = [float(row[0]) for row in rows]
    assert found == pytest.approx([one.log_probability for one in expected], rel=1e-5)
    assert [int(row[1]) for row in rows] == [len(one.subwords) for one in expected]
    # A line's number is the text's, not the block's.
    assert f"line {len(SOURCES) - 3}: the source has" in outcomes[0][1]


def test_tokens_are_json(folder, outcomes, expected):
    assert outcomes[4][0] == 0, outcomes[4][1]
    lines = (folder / "tokens").read_text(encoding="utf-8").split("\n")[:-1]
    for found, one in zip(map(json.loads, lines), expected, strict=True):
        assert found["subwords"] == one.subwords
        assert found["truncated"] == one.truncated
        assert found["log_probabilities"] == pytest.approx(one.log_probabilities, abs=1e-4)
        assert found["log_probability"] == pytest.approx(one.log_probability, rel=1e-5)


def test_killed_and_given_again_it_ends_as_uninterrupted(folder, outcomes):
    _, killed, differing, again, *_ = outcomes
    assert killed[0] == -signal.SIGKILL
    assert differing[0] == 2
    assert "was begun by another command (--tokens False there, True now)" in differing[1]
    assert again[0] == 0, again[1]
    assert "score: going on after" in again[1]
    assert (folder / "out").read_bytes() == (folder / "whole").read_bytes()
    assert not (folder / "out.partial").exists()


def test_files_of_different_lengths_are_refused(folder, outcomes):
    status, log = outcomes[-1]
    assert status == 2
    assert f"--source=short has 1 lines, --target=target has {len(TARGETS)} lines" in log
    assert not (folder / "no").exists()
