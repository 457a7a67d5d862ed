"""A vocabulary for the source and another for the target, through the command lines to servers.

The task: every word has one translation, in other letters, so that neither vocabulary can spell the
other side but in bytes.
"""

import json
import random
import re
import shutil

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text  # noqa: F401  (its operations)

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.evaluation.scores import bleu
from t2t_repro.text.training import SubwordTraining
from tests.commands import outcomes_of

MEANING = dict(
    zip(
        ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"],
        ["альфа", "буки", "веди", "глаголь", "добро", "есть", "живете", "зело"],
        strict=True,
    )
)
SOURCE, TARGET = "source_subwords.model", "target_subwords.model"
GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('train.source', 'train.target')
TextFilesCorpus.dev = ('dev.source', 'dev.target')
TextFilesCorpus.test = ('test.source', 'test.target')
# The vocabulary is small: a target may be another source.
Cleaning.drop_held_out = False
prepare.max_length = 40
prepare.source_subwords = @source/SubwordTraining()
source/SubwordTraining.vocab_size = 290
SubwordTraining.vocab_size = 310

Transformer.tied_embeddings = 'target_softmax'
Transformer.num_layers = 1
LayerConfig.d_model = 32
LayerConfig.d_ff = 64
LayerConfig.num_heads = 2
LayerConfig.dropout = 0.0
Batches.tokens_per_batch = 1000
Batches.max_shapes = 2
adam.learning_rate = @InverseSquareRoot()
InverseSquareRoot.peak = 0.006
InverseSquareRoot.warmup_steps = 50
TrainingSchedule.log_every = 300
Checkpoints.every_steps = 100
train.deterministic = True
DevEvaluation.sentences = 10
"""
TRAINER = ["--gin_file=two.gin", "--data_dir=data"]
MODEL = "--model_dir=model"


def write_task(folder):
    generator = random.Random(0)
    lines = dict.fromkeys(
        " ".join(generator.choices(list(MEANING), k=generator.randint(1, 4))) for _ in range(3000)
    )
    sources = [line for line in lines if len(line.split()) > 1]
    for name, part in (("dev", sources[:20]), ("test", sources[20:60]), ("train", sources[60:])):
        (folder / f"{name}.source").write_text("".join(f"{line}\n" for line in part))
        translations = (" ".join(MEANING[word] for word in line.split()) for line in part)
        (folder / f"{name}.target").write_text("".join(f"{line}\n" for line in translations))
    (folder / "two.gin").write_text(GIN)


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where all commands have run."""
    folder = tmp_path_factory.mktemp("two")
    write_task(folder)
    outcomes = outcomes_of(
        [
            ("trainer", [*TRAINER, MODEL, "--gin_param=TrainingSchedule.steps = 300"], ""),
            ("trainer", [*TRAINER, MODEL, "--gin_param=TrainingSchedule.steps = 600"], ""),
            ("average", [MODEL, "--last=2"], ""),
            ("evaluate", [MODEL, "--data_dir=data", "--output=evaluated"], ""),
            ("translate", [MODEL, "--input=test.source", "--output=translated"], ""),
            ("export", [MODEL, "--export_dir=servable"], ""),
            (
                "attention_maps",
                [MODEL, "--source=ant bee", "--target=альфа", "--output=maps", "--nopictures"],
                "",
            ),
        ],
        folder,
    )
    for outcome in outcomes:
        assert outcome.status == 0, outcome.err
    assert "going on after step 300" in outcomes[1].err
    (folder / "printed").write_text(outcomes[3].out)
    return folder


@pytest.fixture(scope="module")
def translator(folder):
    return load_translator(folder / "model")


def test_each_vocabulary_is_learned_from_its_side_alone(folder, tmp_path):
    data = PreparedData(folder / "data" / "prepared")
    for size, name, path, lines in zip(
        (290, 310),
        (SOURCE, TARGET),
        (data.subwords.source.model_path, data.subwords.target.model_path),
        data.text("train"),
        strict=True,
    ):
        assert path.name == name
        alone = SubwordTraining(vocab_size=size).train(lines, tmp_path / name)
        assert alone.model_path.read_bytes() == path.read_bytes()
    store = data.store("train")
    assert store.vocab_sizes == (290, 310)
    first = store.padded_batch(np.array([0]), 40, 40, 1)
    texts = [model.decode(ids[0]) for model, ids in zip(data.subwords, first, strict=True)]
    assert texts == [side[0] for side in data.text("train")]


def test_the_model_has_a_row_for_each_and_the_directory_has_both(folder):
    model, data = folder / "model", folder / "data" / "prepared"
    sizes = json.loads((model / "model.json").read_text())
    assert (sizes["source_vocab_size"], sizes["vocab_size"]) == (290, 310)
    assert not (model / "subwords.model").exists()
    for name in (SOURCE, TARGET):
        assert (model / name).read_bytes() == (data / name).read_bytes()


def test_the_task_is_learnt(folder):
    expected = lines_of(folder / "test.target")
    for name in ("evaluated", "translated"):
        assert bleu(lines_of(folder / name), expected).value > 90
    assert (folder / "printed").read_text().startswith("test perplexity per subword 1.")


def test_attention_maps_name_each_side_by_its_own_subwords(folder):
    page = (folder / "maps" / "attention.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'application/json">(.*?)</script>', page)
    _, _, cross = json.loads(data)["kinds"]
    for labels, sentence in ((cross["keys"], "ant bee"), (cross["queries"], "альфа")):
        letters = "".join(label.removeprefix("##") for label in labels[:-1])
        assert letters.replace("\u2581", "") == sentence.replace(" ", "")


def test_the_servable_answers_as_the_translator(folder, translator):
    signatures = tf.saved_model.load(str(folder / "servable" / "1")).signatures
    lines = lines_of(folder / "test.source")[:8]
    expected = [found[0] for found in translator.translate(lines)]

    best = signatures["serving_default"](source=tf.constant(lines))
    assert [text.decode() for text in best["translation"].numpy()] == [one.text for one in expected]
    np.testing.assert_allclose(best["score"], [one.score for one in expected], rtol=1e-5, atol=1e-5)
    ids = translator.subwords.source.encode(lines[:1])
    of_ids = signatures["token_ids"](source_ids=tf.constant(ids))["translation_ids"].numpy()
    assert translator.subwords.target.decode(of_ids[0]) == expected[0].text
    target = translator.subwords.target.encode([expected[0].text])
    scored = signatures["score"](
        source=tf.constant(lines[:1]), target=tf.constant([expected[0].text])
    )
    assert scored["length"] == [len(target[0])]
    in_python = translator.model.log_probabilities(tf.constant(ids), tf.constant(target))
    np.testing.assert_allclose(scored["log_probability"], in_python, rtol=1e-4, atol=1e-5)


def test_ctranslate2_answers_as_the_translator(folder, translator, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    from t2t_repro.formats.ctranslate2 import write_ctranslate2_model

    write_ctranslate2_model(translator, "float32", tmp_path / "engine")
    names = {path.name for path in (tmp_path / "engine").iterdir()}
    vocabularies = {"source_vocabulary.json", "target_vocabulary.json"}
    assert names == {"model.bin", "config.json", SOURCE, TARGET, *vocabularies}
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "engine" / name))
        for name in (SOURCE, TARGET)
    )
    engine = ctranslate2.Translator(str(tmp_path / "engine"), intra_threads=1)
    lines = lines_of(folder / "test.source")
    greedy = {"beam_size": 1, "length_penalty": 0, "min_decoding_length": 0}
    found = engine.translate_batch(source.encode(lines, out_type=str), **greedy)
    translations = [target.decode(one.hypotheses[0]) for one in found]
    expected = Translator(
        [translator.model], translator.subwords, TranslatorSettings(BeamSearch(1))
    ).translate(lines)
    assert translations == [best[0].text for best in expected]


def test_what_belongs_to_other_vocabularies_is_refused(folder, tmp_path):
    for name in ("model", "data"):
        shutil.copytree(folder / name, tmp_path / name)
    write_task(tmp_path)
    for name in ("swapped", "half", "both"):
        shutil.copytree(folder / "model", tmp_path / name)
    for name in (SOURCE, TARGET):
        shutil.copy(
            folder / "model" / name, tmp_path / "swapped" / ({SOURCE, TARGET} - {name}).pop()
        )
    (tmp_path / "half" / SOURCE).unlink()
    shutil.copy(folder / "model" / SOURCE, tmp_path / "both" / "subwords.model")
    own = ("prepare.source_subwords", "source/SubwordTraining")
    shared = "\n".join(line for line in GIN.splitlines() if not line.startswith(own))
    (tmp_path / "shared.gin").write_text(shared)
    trainer = ("trainer", "--gin_file=shared.gin", MODEL)
    cases = [
        ((*trainer, "--data_dir=data"), "prepared was made with source_subwords {"),
        ((*trainer, "--data_dir=one"), "source_vocab_size 290 there, 310 now"),
        (("evaluate", MODEL, "--data_dir=one"), "has other subwords than the model was trained"),
        (("translate", "--model_dir=swapped"), "swapped has other subwords than the model was"),
        (("translate", "--model_dir=half"), f"half has {TARGET}, expected subwords.model, or "),
        (("translate", "--model_dir=both"), f"both has subwords.model and {SOURCE} and {TARGET}, "),
    ]
    outcomes = outcomes_of([(verb, given, "ant") for (verb, *given), _ in cases], tmp_path)
    for outcome, (_, message) in zip(outcomes, cases, strict=True):
        assert outcome.status == 2, outcome.err
        assert message in outcome.err.splitlines()[-1]
        assert "Traceback" not in outcome.err
    for name in (SOURCE, TARGET):
        found = (tmp_path / "model" / name).read_bytes()
        assert found == (folder / "model" / name).read_bytes()
    assert not (tmp_path / "model" / "subwords.model").exists()
