"""A Marian model as Hugging Face saved it, through all verbs: its ids and texts come out.

The reference values are not in the repository; see `real_corpora`.
"""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.pair_scores import padded
from t2t_repro.runs.model_directory import ModelDirectory
from tests.commands import outcomes_of
from tests.formats.conftest import graph_of
from tests.formats.marian.test_marian_ctranslate2 import translations
from tests.formats.saved_model.cpp_client import answer_of, cpp_session, text_libraries, texts_of
from tests.processes import CHECKOUT
from tests.real_corpora import shared_folder

# Their limit of 50 more counts an EOS that is forced; ours leaves a translation without one there.
EXTRA = 49
MODEL = "--model_dir=model"
BINDINGS = ["BeamSearch.beam_size = 1", f"Translator.max_extra_length = {EXTRA}"]
GREEDY = [f"--gin_param={binding}" for binding in BINDINGS]
GIN = """
include 'model/config.gin'
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = 'pairs.tsv'
TextFilesCorpus.dev = 'pairs.tsv'
Cleaning.drop_held_out = False
Cleaning.drop_duplicates = False
prepare.workers = 1
train.init_from = 'model'
Batches.tokens_per_batch = 300
Batches.max_shapes = 1
adam.learning_rate = 0.0003
TrainingSchedule.steps = 50
TrainingSchedule.log_every = 10
TrainingSchedule.evaluate_every = 1000
Checkpoints.every_steps = 10
DevEvaluation.sentences = 2
train.deterministic = True
"""


def lines_of(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def lines():
    return json.loads((shared_folder("marian_oracle") / "translations.json").read_text())


@pytest.fixture(scope="module")
def folder(lines, tmp_path_factory):
    """Where the verbs have run."""
    folder = tmp_path_factory.mktemp("oracle")
    for name in ("source", "greedy", "beam4"):
        (folder / name).write_text("".join(f"{line[name]}\n" for line in lines), encoding="utf-8")
    files = ["--source=source", "--reference=greedy"]
    outcomes = outcomes_of(
        [
            (
                "import_marian",
                [f"--model={shared_folder('marian_oracle')}", "--model_dir=model"],
                "",
            ),
            ("translate", [MODEL, *GREEDY, "--input=source", "--output=translated"], ""),
            ("translate", [MODEL, GREEDY[1], "--input=source", "--output=translated4"], ""),
            ("evaluate", [MODEL, *GREEDY, *files, "--output=evaluated"], ""),
            ("score", [MODEL, "--source=source", "--target=greedy", "--output=scores"], ""),
            ("export", [MODEL, *GREEDY, "--export_dir=servable", "--add_signature=alignment"], ""),
            ("export", [MODEL, *GREEDY, "--export_dir=engine", "--format=ctranslate2"], ""),
            (
                "attention_maps",
                [MODEL, f"--source={lines[0]['source']}", "--output=maps", "--nopictures"],
                "",
            ),
        ],
        folder,
    )
    for outcome in outcomes:
        assert outcome.status == 0, outcome.err
    (folder / "printed").write_text(outcomes[3].out)
    return folder


def expected_of(lines, search="greedy"):
    """Their texts; but a blank line stays blank with us."""
    return [line[search] if line["source"].strip() else "" for line in lines]


def test_greedy_texts_are_theirs(folder, lines):
    expected = expected_of(lines)
    assert sum(text != line["greedy"] for text, line in zip(expected, lines, strict=True)) == 1
    assert lines_of(folder / "translated") == expected
    assert lines_of(folder / "evaluated") == expected


def test_texts_of_beam_4_are_theirs(folder, lines):
    """The imported settings divide by the length, as theirs do."""
    expected = expected_of(lines, "beam4")
    assert lines_of(folder / "translated4") == expected


def test_greedy_ids_are_theirs(folder, lines):
    translator = load_translator(folder / "model", BINDINGS)
    source, target = translator.subwords
    theirs = json.loads((shared_folder("marian_oracle") / "vocab.json").read_text())
    sources = source.encode([line["source"].strip() for line in lines])
    # The empty line too: the model has an answer to it.
    found = translator.search_batch(tf.constant(padded(sources)), 1).ids.numpy()[:, 0]
    for line, ids, translation in zip(lines, sources, found, strict=True):
        assert [theirs[source.pieces()[token]] for token in ids] == line["source_ids"]
        expected = line["greedy_ids"][1:]
        if len(expected) == len(ids) + EXTRA + 1:
            # Where the limit is reached.
            expected = expected[:-1]
        pieces = [target.pieces()[token] for token in translation]
        assert [theirs[piece] for piece in pieces[: len(expected)]] == expected
        assert set(pieces[len(expected) :]) <= {"<pad>"}


def test_scores_are_those_of_python(folder, lines):
    translator = load_translator(folder / "model")
    sources, targets = ([line[name] for line in lines] for name in ("source", "greedy"))
    expected = [pair.log_probability for pair in translator.score(sources, targets)]
    found = [float(line.split("\t")[0]) for line in lines_of(folder / "scores")]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_texts_through_tensorflow_s_loader_are_theirs(folder, lines):
    version = folder / "servable" / "1"
    signatures = graph_of(version).signature_def
    sources = [line["source"] for line in lines]
    with cpp_session(version, text_libraries()) as (ask, loaded):
        assert loaded == {}
        best = answer_of(ask, signatures["serving_default"], {"source": sources})
        targets = texts_of(best["translation"])
        links = answer_of(ask, signatures["alignment"], {"source": sources, "target": targets})
    assert targets == expected_of(lines)
    translator = load_translator(folder / "model")
    assert texts_of(links["alignment"]) == translator.align(sources, targets)


def test_texts_of_ctranslate2_are_theirs(folder, lines):
    pytest.importorskip("ctranslate2")
    longest = max(len(line["source_ids"]) for line in lines)
    found = translations(folder / "engine", [line["source"] for line in lines], longest + EXTRA)
    assert found == expected_of(lines)


def test_attention_maps_name_the_words(folder, lines):
    page = (folder / "maps" / "attention.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'application/json">(.*?)</script>', page)
    _, _, cross = json.loads(data)["kinds"]
    for labels, sentence in (
        (cross["keys"], lines[0]["source"]),
        (cross["queries"], lines[0]["beam4"]),
    ):
        letters = "".join(label.removeprefix("##") for label in labels[:-1])
        assert letters.replace("\u2581", "") == sentence.replace(" ", "")


def train(folder, model):
    command = [sys.executable, "-m", "t2t_repro.trainer", "--gin_file=more.gin"]
    return subprocess.Popen(
        [*command, "--data_dir=data", f"--model_dir={model}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_fifty_more_updates_killed_and_resumed(folder, lines):
    pairs = [line for line in lines if line["source"].strip()]
    (folder / "pairs.tsv").write_text(
        "".join(f"{line['source']}\t{line['beam4']}\n" for line in pairs), encoding="utf-8"
    )
    (folder / "more.gin").write_text(GIN)
    whole = train(folder, "whole")
    assert whole.wait(300) == 0, whole.stderr.read()
    killed = train(folder, "killed")
    for line in killed.stderr:
        if "step 20" in line:
            break
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    last = train(folder, "killed")
    err = last.communicate(timeout=300)[1]
    assert last.returncode == 0, err
    assert re.search("going on after step [1-4]0", err)
    ours, theirs, before = (
        ModelDirectory(folder / name).load_model("latest") for name in ("killed", "whole", "model")
    )
    moved = 0
    for one, other, old in zip(
        ours.trainable_variables,
        theirs.trainable_variables,
        before.trainable_variables,
        strict=True,
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
        moved += (one.numpy() != old.numpy()).any()
    assert moved > 50
