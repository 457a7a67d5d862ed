"""Models that Marian trained: its scores and n-best lists come out, exported too.

The reference values are not in the repository; see `real_corpora`.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from t2t_repro.decoding.loading import load_translator
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from tests.commands import outcomes_of
from tests.formats.conftest import graph_of
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries
from tests.real_corpora import shared_folder

# Where the text of the files is pieces, as OPUS-MT's scripts make it, plain text is beside it.
# Of the model with normalization before the sub-layers, Marian's newer decoder has the lists.
MODELS = {"post_norm_joint": "", "pre_norm_guided": "_new_layers", "opus_mt_layout": ""}


class Oracle(NamedTuple):
    """A model's files, and the directory into which it was imported."""

    files: Path
    lists: str
    model_dir: Path
    has_pieces: bool

    def lines(self, name):
        return (self.files / name).read_text(encoding="utf-8").split("\n")[:-1]

    def texts(self, name):
        raw = f"{name}.raw.txt"
        return self.lines(raw if (self.files / raw).exists() else f"{name}.txt")

    def plain(self, text):
        return text.replace(" ", "").replace("\u2581", " ").strip() if self.has_pieces else text

    def n_best(self, alpha):
        """Texts and scores of each line."""
        found: dict[int, list[tuple[str, float]]] = {}
        for line in self.lines(f"{self.lists}/nbest4_normalize_{alpha}.txt"):
            number, text, _, _, score = line.split(" ||| ")
            found.setdefault(int(number), []).append((self.plain(text), float(score)))
        return list(found.values())

    def translator(self, alpha):
        params = [f"MarianSearch.length_penalty = {alpha}"]
        # Its lists were made with --allow-unk.
        params += ["Translator.forbidden_ids = ()"] * self.has_pieces
        return load_translator(self.model_dir, params)


@pytest.fixture(scope="module", params=MODELS)
def oracle(request, tmp_path_factory):
    files = shared_folder("marian/oracle") / request.param
    folder = tmp_path_factory.mktemp(request.param)
    flags = [f"--model={files}", "--model_dir=model"]
    (outcome,) = outcomes_of([("import_marian", flags, "")], folder)
    assert outcome.status == 0, outcome.err
    has_pieces = (files / "source.raw.txt").exists()
    return Oracle(files, f"expected{MODELS[request.param]}", folder / "model", has_pieces)


@pytest.fixture(scope="module")
def translator(oracle):
    return oracle.translator("1.0")


def test_scores_of_sentences_and_pieces_are_its_scorer_s(oracle, translator):
    found = translator.score(oracle.texts("source"), oracle.texts("reference"))
    expected = [float(line) for line in oracle.lines("expected/reference.scores.txt")]
    np.testing.assert_allclose([one.log_probability for one in found], expected, atol=1e-3)
    for one, line in zip(found, oracle.lines("expected/reference.word_scores.txt"), strict=True):
        pieces = [float(value) for value in line.split("WordScores= ")[1].split()]
        np.testing.assert_allclose(one.log_probabilities, pieces, atol=1e-4)


def check(found, expected):
    """Compares texts and scores of n-best lists."""
    assert len(expected) == 12
    assert [[text for text, _ in one] for one in found] == [[t for t, _ in e] for e in expected]
    scores = [[score for _, score in one] for one in found]
    np.testing.assert_allclose(scores, [[s for _, s in one] for one in expected], atol=1e-3)


def test_n_best_lists_are_its_decoder_s(oracle, translator):
    for alpha, one in (("0.6", oracle.translator("0.6")), ("1.0", translator)):
        check(one.translate(oracle.texts("source"), 4), oracle.n_best(alpha))


def test_odd_lines_are_translated_as_its_decoder_does(oracle, translator):
    found = [best.text for best, *_ in translator.translate(oracle.texts("edge"), 4)]
    expected = oracle.lines(f"{oracle.lists}/edge.beam4_normalize_1.0.txt")
    assert found == [oracle.plain(line) for line in expected]


def test_n_best_lists_through_tensorflow_s_loader_are_its_decoder_s(oracle, translator, tmp_path):
    servable = Servable(translator, "float32")
    version = write_saved_model(servable, tmp_path, 1, "made")
    with cpp_session(version, text_libraries()) as (ask, loaded):
        assert loaded == {}
        signature = graph_of(version).signature_def["nbest"]
        answer = answer_of(ask, signature, {"source": oracle.texts("source")})
    texts = [[text.decode() for text in row] for row in answer["translation"]]
    found = [list(zip(*row, strict=True)) for row in zip(texts, answer["score"], strict=True)]
    check(found, oracle.n_best("1.0"))
