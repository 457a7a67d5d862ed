"""A user's mistake is one line and status 2; it names the flag, or says what was received."""

import pytest

from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.weights import save_weights
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from tests.commands import outcomes_of
from tests.decoding.random_translator import random_model, write_subwords

MODEL = "--model_dir=model"
MISTAKES = {
    "missing flag": ("translate", [], "--model_dir"),
    "unknown flag": ("translate", [MODEL, "--beam=3"], "beam"),
    "flag twice": (
        "translate",
        [MODEL, "--model_dir=other"],
        "--model_dir is given as model and as",
    ),
    "own input": ("translate", [MODEL, "--input=one", "--output=link"], "--input too"),
    "one file twice": (
        "evaluate",
        [MODEL, "--source=one", "--reference=one", "--output=one"],
        "--output=one is the file of --",
    ),
    "standard input twice": ("translate", [MODEL, "--prefix=-"], "standard input"),
    "no model": ("translate", ["--model_dir=nowhere"], "nowhere"),
    "remote path": ("translate", ["--model_dir=gs://bucket/model"], "--model_dir"),
    "no checkpoint": ("translate", [MODEL, "--checkpoint=best"], "best"),
    "beyond the beam": ("translate", [MODEL, "--n_best=9"], "--n_best=9"),
    "whole lines": ("translate", [MODEL, "--split_sentences", "--n_best=2"], "--n_best"),
    "useless flag": ("translate", [MODEL, "--alignments=x"], "--alignments"),
    "value": ("translate", [MODEL, "--gin_param=BeamSearch.beam_size = 0"], "beam_size"),
    "no input": ("translate", [MODEL, "--input=nowhere"], "--input=nowhere"),
    "unaligned": ("evaluate", ["--translations=one", "--reference=two"], "one has 1 lines"),
    "unlike references": (
        "evaluate",
        ["--translations=one", "--reference=one", "--reference=two"],
        "--reference=two has 2 lines",
    ),
    "no gin file": ("trainer", ["--gin_file=nowhere.gin"], "nowhere.gin"),
    "blank sentence": ("attention_maps", [MODEL, "--source= ", "--output=x"], "source sentence"),
    "not new": ("export", [MODEL, "--export_dir=model", "--format=ctranslate2"], "--export_dir"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    subwords = shared(SentencePieceModel(write_subwords(folder / "subwords.model")))
    directory = ModelDirectory(folder / "model")
    model = random_model(subwords.target)
    directory.describe(model, subwords, "BeamSearch.beam_size = 2", "")
    save_weights(model, directory.checkpoints, 1)
    (folder / "one").write_text("a\n")
    (folder / "link").hardlink_to(folder / "one")
    (folder / "two").write_text("a\nb\n")
    before = sorted(folder.iterdir())
    commands = [(verb, arguments, "a\n") for verb, arguments, _ in MISTAKES.values()]
    found = dict(zip(MISTAKES, outcomes_of(commands, folder), strict=True))
    assert sorted(folder.iterdir()) == before
    return found


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(outcomes, mistake):
    outcome = outcomes[mistake]
    assert outcome.status == 2, outcome.err
    assert not outcome.out
    last = outcome.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert MISTAKES[mistake][2] in last
    assert "Traceback" not in outcome.err
