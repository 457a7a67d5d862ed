"""The client against the server, both as command lines."""

import json
import os
import re
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from t2t_repro.decoding.sentences import translate_split
from t2t_repro.errors import UserError
from t2t_repro.serving.predict import read_api_key
from tests.commands import outcomes_of
from tests.decoding.random_translator import ODD_LINES
from tests.processes import CHECKOUT
from tests.training.tiny import written

LINES = [line for line in ODD_LINES if "\n" not in line]
KEY = "secret"
BINDINGS = "Translator.max_extra_length = 8\nTranslator.max_source_length = 24\n"


@pytest.fixture(scope="module")
def model_dir(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model"
    written(path, translator.model, translator.subwords, BINDINGS)
    return f"--model_dir={path}"


@pytest.fixture(scope="module")
def server(model_dir):
    """The address of a server, which has to end well at SIGTERM."""
    flags = [model_dir, "--direction=en-de", "--model_name=made"]
    flags += [model_dir, "--direction=de-en", "--rest_port=0"]
    with subprocess.Popen(
        [sys.executable, "-m", "t2t_repro.serve", *flags],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), "T2T_API_KEY": KEY},
    ) as process:
        assert process.stderr
        for line in process.stderr:
            if found := re.search(r"serving at http://([\d.:]+)/", line):
                break
        assert found
        yield found[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("T2T_API_KEY", KEY)


def test_lines_in_lines_out(server, translator, tmp_path):
    with urlopen(f"http://{server}/languages") as response:
        assert [one["targets"] for one in json.load(response)] == [["de"], ["en"]]
    text = "".join(f"{line}\n" for line in LINES)
    address = [f"--server={server}", "--model_name=made", "--batch_size=3"]
    plain, scored, unknown = outcomes_of(
        [
            ("client", address, text),
            ("client", [*address, "--n_best=2", "--scores"], text),
            ("client", [*address[:1], "--model_name=other"], text),
        ],
        tmp_path,
    )
    expected = translator.translate(LINES, 2)
    best = [found[0].text for found in translator.translate(LINES)]
    assert plain.out == "".join(f"{line}\n" for line in best)
    assert "line 13: only its beginning" in plain.err
    rows = [row.split("\t") for row in scored.out.splitlines()]
    numbered = [(n, one) for n, found in enumerate(expected, 1) for one in found]
    assert [(row[0], row[2]) for row in rows] == [(str(n), one.text) for n, one in numbered]
    scores = [one.score for _, one in numbered]
    assert [float(row[1]) for row in rows] == pytest.approx(scores, abs=1e-3)
    assert [row[3:] == [] for row in rows] == [one.finished for _, one in numbered]
    assert (unknown.status, unknown.out) == (2, "")
    assert "404" in unknown.err


def test_directions_are_checked_before_models_are_loaded(tmp_path):
    flags = ["--model_dir=nowhere", "--rest_port=0", "--direction=english-german"]
    (outcome,) = outcomes_of([("serve", flags, "")], tmp_path)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--direction=english-german" in outcome.err


@pytest.mark.parametrize("given", ["", "a b", "a\n", "ключ"])
def test_a_key_can_stand_in_a_header(monkeypatch, given):
    monkeypatch.setenv("T2T_API_KEY", given)
    with pytest.raises(UserError):
        read_api_key()


def test_sentences_of_a_line(server, model_dir, translator, tmp_path):
    lines = ["The red bird.  A tree. ", "", "word " * 200, "x" * 1000, "A\u2028 b. C"]
    text = "".join(f"{line}\n" for line in lines)
    rows = translate_split(translator, lines, "en")
    by_server = ("client", [f"--server={server}", "--model_name=made", "--batch_size=3"])
    by_itself = ("translate", [model_dir])
    commands = [
        (verb, [*where, "--split_sentences", "--scores"], text)
        for verb, where in (by_server, by_itself)
    ]
    for outcome in outcomes_of(commands, tmp_path):
        found = [line.split("\t", 2) for line in outcome.out.split("\n")[:-1]]
        assert [(line[0], line[2]) for line in found] == [
            (str(number), row.text + "\tunfinished" * (not row.finished))
            for number, row in enumerate(rows, 1)
        ]
        scores = [row.score for row in rows]
        assert [float(line[1]) for line in found] == pytest.approx(scores, abs=1e-3)
        assert re.findall(r"line (\d+): only", outcome.err) == ["4"]
