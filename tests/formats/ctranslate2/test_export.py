"""What CTranslate2 makes of an exported model, against the model itself."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.batch_plan import padded
from t2t_repro.decoding.settings import BeamSearch, ImportedBehaviour, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.characters import readable
from t2t_repro.text.subword_model import shared
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.layer_test import randomize

ctranslate2 = pytest.importorskip("ctranslate2")

from t2t_repro.formats.ctranslate2.export import write_ctranslate2_model  # noqa: E402

ROOT = Path(__file__).parents[3]

SIZES: dict[str, dict[str, Any]] = {
    "a shallow decoder": {
        "config": LayerConfig(24, 16, 3), "num_layers": 3, "num_decoder_layers": 1,
    },
    "pre-norm, concatenated": {
        "config": LayerConfig(20, 16, 2, normalization="pre"),
        "positional_encoding": "concatenated",
    },
    "shallow keys": {"config": LayerConfig(16, 16, 2, d_k=3, d_v=5)},
    "Marian's": {
        "config": LayerConfig(
            16, 16, 2, activation="swish", attention_biases=True, norm_epsilon=1e-2
        ),
        "positional_encoding": "halves", "logits_bias": True, "num_decoder_layers": 2,
    },
    "learned positions, deep keys, none tied": {
        "config": LayerConfig(16, 16, 3, d_k=9, d_v=5, attention_biases=True, activation="gelu"),
        "positional_encoding": "learned", "max_length": 30, "tied_embeddings": "none",
    },
}  # fmt: skip
SOURCES = ["the red bird", "a", "a tree, a house", "the river, the stone and the cloud", "x ⁇ 🙂"]
TARGETS = ["a blue bird", "the stone and the river sees", "a", "", "🙂 Ω"]
WORDS = ["the", "red", "a", "blue", "stone", "river"]
SHORT = [f"{first} {second}" for first in WORDS for second in WORDS]
STEPS = 12
EXTRA = 20


def model_of(subwords, seed=3, **sizes):
    """Random weights; some sentences end, and some hold PAD."""
    # The next token must depend on what matrices make of tokens and positions.
    spreads = {"gamma": 0.1, "beta": 0.1, "bias": 0.1, "logits_bias": 0.1, "table": 0.3}
    model = Transformer(subwords.size + 20, **{"num_layers": 1, **sizes})
    randomize(model, seed, lambda weight: spreads.get(weight.name, 1.0))
    rows = np.array(model.embedding.table)
    rows[[PAD_ID, EOS_ID]] *= 1.6
    model.embedding.table.assign(rows)
    last_gamma = model.trainable_variables[-2]
    last_gamma.assign(8.0 * last_gamma)
    return model


@pytest.fixture(scope="module", params=SIZES)
def pair(request, subwords, tmp_path_factory):
    """A model, and CTranslate2's translator of it."""
    model = model_of(subwords, **SIZES[request.param])
    before = model.get_weights()
    path = tmp_path_factory.mktemp("exported") / "made"
    write_ctranslate2_model(Translator([model], shared(subwords)), "float32", path)
    np.testing.assert_equal(before, model.get_weights())
    return model, ctranslate2.Translator(str(path), intra_threads=1)


def tokens_of(subwords, ids):
    pieces = subwords.pieces()
    return [pieces[token if token < subwords.size else UNK_ID] for token in ids]


def tokens_of_lines(subwords, lines):
    """As CTranslate2 takes them: it adds EOS."""
    return [tokens_of(subwords, ids[:-1]) for ids in subwords.encode(lines)]


def test_ids_that_are_forbidden_are_never_written(pair, subwords, tmp_path):
    model, engine = pair
    sources = tokens_of_lines(subwords, SOURCES)
    options = {"beam_size": 1, "max_decoding_length": STEPS}
    usual = [one.hypotheses[0] for one in engine.translate_batch(sources, **options)]
    pieces = subwords.pieces()
    forbidden = {pieces.index(words[0]) for words in usual if words}
    settings = TranslatorSettings(imported=ImportedBehaviour(forbidden_ids=tuple(forbidden)))
    translator = Translator([model], shared(subwords), settings)
    write_ctranslate2_model(translator, "float32", tmp_path / "x")
    without = ctranslate2.Translator(str(tmp_path / "x"), intra_threads=1)
    translations = without.translate_batch(sources, **options)
    words = {word for translation in translations for word in translation.hypotheses[0]}
    assert words
    assert not words & {pieces[token] for token in forbidden - {UNK_ID}}


def test_log_probabilities_are_ours(pair, subwords):
    model, engine = pair
    sources, targets = subwords.encode(SOURCES), subwords.encode(TARGETS)
    targets[0].insert(2, PAD_ID)
    logits = model((padded(sources), padded(targets)))
    log_probs = tf.nn.log_softmax(logits).numpy()
    found = engine.score_batch(
        *([tokens_of(subwords, ids[:-1]) for ids in rows] for rows in (sources, targets))
    )
    for row, target, one in zip(log_probs, targets, found, strict=True):
        assert one.tokens == tokens_of(subwords, target)
        expected = row[np.arange(len(target)), target]
        np.testing.assert_allclose(one.log_probs, expected, atol=1e-4, rtol=1e-5)


@pytest.fixture(scope="module")
def greedy_translator(subwords):
    """A greedy translator."""
    # A third of its sentences end.
    model = model_of(subwords, seed=13, config=LayerConfig(16, 16, 3, d_k=9, d_v=5))
    settings = TranslatorSettings(BeamSearch(1, 0.0), max_extra_length=EXTRA)
    return Translator([model], shared(subwords), settings)


@pytest.fixture(scope="module")
def exported(greedy_translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    for weights in ("float32", "int8"):
        write_ctranslate2_model(greedy_translator, weights, folder / weights)
    return folder


def test_int8_is_close(exported, subwords):
    pairs = [tokens_of_lines(subwords, lines) for lines in (SOURCES, TARGETS)]
    engine = ctranslate2.Translator(str(exported / "int8"), intra_threads=1)
    assert engine.compute_type.startswith("int8")
    assert len(engine.translate_batch(pairs[0])) == len(SOURCES)
    scores = []
    # A processor without AVX-512 cuts CTranslate2's products in 8 bits off.
    for path in (exported / "float32", exported / "int8"):
        engine = ctranslate2.Translator(str(path), compute_type="float32", intra_threads=1)
        scores.append(np.concatenate([one.log_probs for one in engine.score_batch(*pairs)]))
    assert 0 < abs(scores[0] - scores[1]).mean() < 0.02 * abs(scores[0]).mean()


def test_the_directory_is_complete(exported, subwords):
    folder = exported / "float32"
    names = {"model.bin", "config.json", "shared_vocabulary.json", "subwords.model"}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "subwords.model").read_bytes() == subwords.model_path.read_bytes()
    tokens = json.loads((folder / "shared_vocabulary.json").read_text())
    assert tokens == subwords.pieces() + ["<unk>"] * 20


def test_the_page_translates_a_file_without_tensorflow(
    greedy_translator, exported, subwords, tmp_path
):
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(import ctranslate2.*?)```", page, re.DOTALL)
    assert code is not None
    text = code[1].replace("runs/quickstart/ctranslate2", str(exported / "float32"))
    # Of one length, so that one limit is right for all; and blank ones, which need none.
    length = len(subwords.encode(SHORT)[0])
    same = [line for line in SHORT if len(subwords.encode([line])[0]) == length]
    assert "beam_size=4" in text
    assert "max_decoding_length=256" in text
    text = text.replace("beam_size=4", "beam_size=1").replace("256", str(length + EXTRA))
    lines = ["", *(f" {line}\t" for line in same), " \u2028"]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines), newline="")
    subprocess.run(
        [sys.executable, "-c", text + "import sys\nassert 'tensorflow' not in sys.modules"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"},
        check=True,
        timeout=100,
    )
    expected = [found[0].text for found in greedy_translator.translate(lines)]
    found = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    # It shows stray bytes.
    assert [*map(readable, found)] == [*expected, ""]
    assert len({*found}) > 2


@pytest.mark.parametrize(
    ("layer", "sizes", "named"),
    [
        ({}, {"neighbourhood": 3}, "neighbourhood = 3"),
        ({"norm": "RMSNormalization"}, {}, "norm = 'RMSNormalization'"),
        ({"decoder_self_attention": "ssru"}, {}, "decoder_self_attention = 'ssru'"),
    ],
)
def test_what_cannot_be_expressed_is_refused(layer, sizes, named, subwords, tmp_path):
    model = model_of(subwords, config=LayerConfig(16, 16, 2, **layer), **sizes)
    with pytest.raises(UserError, match=named):
        write_ctranslate2_model(Translator([model], shared(subwords)), "float32", tmp_path / "new")
    assert not [*tmp_path.iterdir()]
