"""Marian models, of Hugging Face and of Marian: their figures and texts come out, exported too.

The reference values are not in the repository; see `real_corpora`.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.loading import load_translator
from t2t_repro.formats.hugging_face.tokenizer import read_marian_text
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.vocabulary import PAD_ID
from tests.commands import outcomes_of
from tests.formats.conftest import graph_of
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries, texts_of
from tests.processes import CHECKOUT, output_of
from tests.real_corpora import shared_folder

# Their limit of 50 more counts an EOS that is forced; ours leaves a translation without one there.
EXTRA = 49
GREEDY = ["BeamSearch.beam_size = 1", f"Translator.max_extra_length = {EXTRA}"]


@pytest.fixture(scope="module")
def lines():
    return json.loads((shared_folder("marian_oracle") / "translations.json").read_text())


def imported(files, folder):
    """The model directory that import_marian makes in a folder."""
    flags = [f"--model={files}", "--model_dir=model"]
    (outcome,) = outcomes_of([("import_marian", flags, "")], folder)
    assert outcome.status == 0, outcome.err
    return folder / "model"


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return imported(shared_folder("marian_oracle"), tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="module")
def greedy(model_dir):
    return load_translator(model_dir, GREEDY)


def expected_of(lines, search="greedy"):
    """Their texts; but a blank line stays blank with us."""
    return [line[search] if line["source"].strip() else "" for line in lines]


def test_logits_and_losses_are_theirs(greedy):
    model, folder = greedy.model, shared_folder("marian_oracle")
    target_ids = read_marian_text(folder).target.ids
    ours = np.argsort(target_ids).astype(np.int32)
    with np.load(folder / "oracle.npz") as values:
        source, target = (ours[values[f"{side}_ids"]] for side in ("source", "target"))
        tokens = source != PAD_ID
        memory = model.encode(source).numpy()
        np.testing.assert_allclose(memory[tokens], values["encoder_output"][tokens], atol=1e-4)
        expected = values["logits"][..., target_ids]
        np.testing.assert_allclose(model((source, target)), expected, atol=1e-4)
        nll = -model.token_log_probabilities(source, target).numpy()
        np.testing.assert_allclose(nll, values["nll_per_token"], atol=1e-4)


def test_greedy_texts_and_ids_are_theirs(greedy, lines):
    sources = [line["source"] for line in lines]
    expected = expected_of(lines)
    assert sum(text == line["greedy"] for text, line in zip(expected, lines, strict=True)) == 44
    assert [best.text for (best,) in greedy.translate(sources)] == expected
    source, target = greedy.subwords
    theirs = json.loads((shared_folder("marian_oracle") / "vocab.json").read_text())
    encoded = source.encode([text.strip() for text in sources])
    # The empty line too: the model has an answer to it.
    search = tf.function(greedy.search_batch, autograph=False)
    rows = search(tf.constant(padded(encoded)), 1).ids.numpy()[:, 0]
    for line, ids, translation in zip(lines, encoded, rows, strict=True):
        assert [theirs[source.pieces()[token]] for token in ids] == line["source_ids"]
        expected = line["greedy_ids"][1:]
        if len(expected) == len(ids) + EXTRA + 1:
            # Where the limit is reached.
            expected = expected[:-1]
        pieces = [target.pieces()[token] for token in translation]
        assert [theirs[piece] for piece in pieces[: len(expected)]] == expected
        assert set(pieces[len(expected) :]) <= {"<pad>"}


def test_texts_and_scores_of_beam_4_are_theirs(model_dir, lines):
    translator = load_translator(model_dir, GREEDY[1:])
    best = [best for (best,) in translator.translate([line["source"] for line in lines])]
    assert [translation.text for translation in best] == expected_of(lines, "beam4")
    # A translation that reaches the limit has log P alone as its score.
    rows = [i for i, one in enumerate(best) if lines[i]["source"].strip() and one.score > -10]
    assert len(rows) >= 40
    expected = [lines[i]["beam4_score"] for i in rows]
    np.testing.assert_allclose([best[i].score for i in rows], expected, atol=1e-4)


def test_texts_and_links_through_tensorflow_s_loader_are_theirs(greedy, lines, tmp_path):
    servable = Servable(greedy, "float32", ["alignment"])
    version = write_saved_model(servable, tmp_path, 1, "made")
    signatures = graph_of(version).signature_def
    sources = [*(line["source"] for line in lines), ">>fra<< the fox ☃", "</s> a <pad>", "\u2028"]
    with cpp_session(version, text_libraries()) as (ask, loaded):
        assert loaded == {}
        best = answer_of(ask, signatures["serving_default"], {"source": sources})
        targets = texts_of(best["translation"])
        links = answer_of(ask, signatures["alignment"], {"source": sources, "target": targets})
    assert targets == [best.text for (best,) in greedy.translate(sources)]
    assert targets[: len(lines)] == expected_of(lines)
    assert texts_of(links["alignment"]) == greedy.align(sources, targets)


def test_texts_of_ctranslate2_are_theirs(greedy, lines, tmp_path):
    """By the program of the page."""
    pytest.importorskip("ctranslate2")
    from t2t_repro.formats.ctranslate2.export import write_ctranslate2_model

    write_ctranslate2_model(greedy, "float32", tmp_path / "engine")
    page = (CHECKOUT / "docs" / "marian.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(import re.*?)```", page, re.DOTALL)
    assert code
    longest = max(len(line["source_ids"]) for line in lines) + EXTRA
    program = code[1].replace("runs/opus/ctranslate2", str(tmp_path / "engine"))
    text = "".join(f"{line['source']}\n" for line in lines)
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    output_of("-c", program.replace("256", str(longest)), folder=tmp_path)
    translated = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert translated == expected_of(lines)


# Marian's own files


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

    def n_best(self):
        """Texts and scores of each line."""
        found: dict[int, list[tuple[str, float]]] = {}
        for line in self.lines(f"{self.lists}/nbest4_normalize_1.0.txt"):
            number, text, _, _, score = line.split(" ||| ")
            found.setdefault(int(number), []).append((self.plain(text), float(score)))
        return list(found.values())


@pytest.fixture(scope="module", params=MODELS)
def oracle(request, tmp_path_factory):
    files = shared_folder("marian/oracle") / request.param
    model_dir = imported(files, tmp_path_factory.mktemp(request.param))
    has_pieces = (files / "source.raw.txt").exists()
    return Oracle(files, f"expected{MODELS[request.param]}", model_dir, has_pieces)


@pytest.fixture(scope="module")
def translator(oracle):
    params = ["MarianSearch.length_penalty = 1.0"]
    # Its lists were made with --allow-unk.
    params += ["ImportedBehaviour.forbidden_ids = ()"] * oracle.has_pieces
    return load_translator(oracle.model_dir, params)


@pytest.mark.usefixtures("eagerly")
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
    assert [[text for text, *_ in one] for one in found] == [[t for t, _ in e] for e in expected]
    scores = [[score for _, score, *_ in one] for one in found]
    np.testing.assert_allclose(scores, [[s for _, s in one] for one in expected], atol=1e-3)


def test_n_best_lists_are_its_decoder_s(oracle, translator):
    check(translator.translate(oracle.texts("source"), 4), oracle.n_best())


def test_odd_lines_are_translated_as_its_decoder_does(oracle, translator):
    found = [best.text for best, *_ in translator.translate(oracle.texts("edge"), 4)]
    expected = oracle.lines(f"{oracle.lists}/edge.beam4_normalize_1.0.txt")
    assert found == [oracle.plain(line) for line in expected]
