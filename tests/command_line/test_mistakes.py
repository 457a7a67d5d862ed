"""A user's mistake is one line and status 2; it names the flag, or says what was received."""

import socket

import pytest

from t2t_repro.text.subword_model import shared
from tests.commands import WITH_TENSORFLOW, WITHOUT_TENSORFLOW, Outcome, outcomes_of
from tests.decoding.random_translator import random_model, write_subwords
from tests.training.tiny import written

MODEL = "--model_dir=model"
GIN = "--gin_file=gin/mine.gin"
SCORED = "--translations=one", "--reference=one"
ARGOS = "--export_dir=x", "--format=argos"
EARLY = {
    "missing flag": ("score", ["--log_format", "short"], "--model_dir is missing"),
    "missing model": ("translate", [], "--model_dir"),
    "unknown flag": ("translate", [MODEL, "--beam=3"], "beam"),
    "no flag": ("translate", ["model_dir=model"], "'model_dir=model'"),
    "no flag after some": ("score", ["--source", "one", "--tokens", "model"], "'model'"),
    "no flag of a command": ("__main__", ["import-t2t", "one"], "'one'"),
    "no command": ("__main__", ["trian", MODEL], "'trian'"),
    "flag twice": ("translate", [MODEL, "--model_dir=x"], "--model_dir is given as model and as"),
    "own input": ("translate", [MODEL, "--input=one", "--output=link"], "--input too"),
    "no place": ("evaluate", [MODEL, "--output=nowhere/x"], "--output=nowhere/x"),
    "no model": ("translate", ["--model_dir=nowhere"], "nowhere"),
    "remote path": ("translate", ["--model_dir=gs://bucket/model"], "--model_dir"),
    "no checkpoint": ("translate", [MODEL, "--checkpoint=best"], "best"),
    "whole lines": ("translate", [MODEL, "--split_sentences", "--n_best=2"], "--n_best"),
    "whole file": (
        "translate",
        [MODEL, "--file=a.po", "--scores", "--n_best=2", "--input=one"],
        "--input, --n_best, --scores and --file",
    ),
    "other xliff": ("translate", [MODEL, "--file=a.SDLXLIFF", "--output=x"], "cannot read a.SDL"),
    "no translation": ("parse", [MODEL, "--glossary=one"], "glossary"),
    "useless flag": ("translate", [MODEL, "--alignments=x"], "--alignments"),
    "no parameter": ("translate", [MODEL, "--gin_param=BeamSearch.beams = 1"], "beam_size"),
    "no input": ("translate", [MODEL, "--input=nowhere"], "--input=nowhere"),
    "no file": ("translate", [MODEL, "--input=gin"], "--input=gin"),
    "nothing asked for": ("translate", [MODEL, "--n_best=0"], "--n_best=0"),
    "unaligned pairs": ("score", [MODEL, "--source=one", "--target=two"], "--target=two has 2"),
    "too few checkpoints": ("average", [MODEL, "--last=0"], "--last"),
    "no data": ("evaluate", [MODEL], "data"),
    "no model to serve": ("serve", ["--model_dir=nowhere", "--rest_port=0"], "nowhere"),
    "no server": ("client", ["--server=127.0.0.1:1"], "--server=127.0.0.1:1"),
    "port in use": ("serve", [MODEL, "--rest_port={port}"], "--rest_port={port}"),
    "not new": ("export", [MODEL, "--export_dir=model", "--format=ctranslate2"], "--export_dir"),
    "hub flag twice": ("import_hugging_face", ["--model=a", "--model=b", "--model_dir=x"], "as b"),
    "not of the hub": (
        "import_marian",
        ["--model=one", "--model_dir=x", "--revision=a"],
        "--revision",
    ),
    "no archive": ("import_marian", ["--model=a/b.tgz", "--model_dir=x"], "no such file"),
    "no language code": ("export", [MODEL, *ARGOS, "--direction=english-german"], "english-german"),
    "no module": ("translate", [MODEL, "--import=./parts.py"], "--import=./parts.py"),
    "unread": ("evaluate", [*SCORED, "--gin_param=BeamSearch.beam_size = 1"], "beam_size"),
    "called": ("evaluate", [*SCORED, "--gin_param=evaluate.metrics = [@bleu()]"], "has no ()"),
    "no experiment": ("trainer", [], "--gin_file is missing"),
    "no gin file": ("trainer", ["--gin_file=nowhere.gin"], "nowhere.gin"),
    "of a library's": ("trainer", [GIN, "--gin_param=bleu.tokenise = 'zh'"], "tokenize"),
    "unaligned text": ("trainer", [GIN], "two has 2 lines"),
}
"""TensorFlow is not needed to see these."""
LATE = {
    "standard input twice": ("translate", [MODEL, "--prefix=-"], "--prefix are standard input"),
    "beyond the beam": ("translate", [MODEL, "--n_best=9"], "n_best is 9"),
    "value": ("translate", [MODEL, "--gin_param=BeamSearch.beam_size = 0"], "beam_size"),
}
MISTAKES = EARLY | LATE


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    subwords = shared(write_subwords(folder / "subwords.model"))
    written(folder / "model", random_model(subwords.target), subwords, "BeamSearch.beam_size = 2")
    (folder / "one").write_text("a\n")
    (folder / "link").hardlink_to(folder / "one")
    (folder / "two").write_text("a\nb\n")
    (folder / "gin").mkdir()
    (folder / "gin" / "mine.gin").write_text(
        "import beside\nprepare.corpus = @TextFilesCorpus()\n"
        "TextFilesCorpus.train = ('one', 'two')\nTextFilesCorpus.dev = 'dev.tsv'\n"
        "adam.learning_rate = 0.1\n"
    )
    (folder / "gin" / "beside.py").touch()
    before = sorted(folder.iterdir())
    found: dict[str, Outcome] = {}
    with socket.create_server(("127.0.0.1", 0)) as busy:
        for mistakes, imports in ((EARLY, WITHOUT_TENSORFLOW), (LATE, WITH_TENSORFLOW)):
            commands = [
                (verb, [one.format(port=busy.getsockname()[1]) for one in arguments], "a\n")
                for verb, arguments, _ in mistakes.values()
            ]
            found |= zip(mistakes, outcomes_of(commands, folder, imports), strict=True)
    assert sorted(folder.iterdir()) == before
    return found


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(outcomes, mistake):
    outcome = outcomes[mistake]
    assert outcome.status == 2, outcome.err
    assert not outcome.out
    last = outcome.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert MISTAKES[mistake][2].split("{")[0] in last
    assert "Traceback" not in outcome.err


def test_help_is_no_mistake(tmp_path):
    (outcome,) = outcomes_of([("translate", ["--help"], "")], tmp_path, WITHOUT_TENSORFLOW)
    assert outcome.status == 0
    assert "--model_dir" in outcome.out
