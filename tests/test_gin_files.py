"""The experiments in gin/ are what their names say: the paper's sizes, rates and decoding."""

import ast
import re

import gin
import pytest
import tensorflow as tf

from operations import parameter_count
from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.batches import Batches
from t2t_repro.decoding.settings import BeamSearch
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.evaluation.scores import EvaluationSettings
from t2t_repro.experiment import configure
from t2t_repro.model.settings import LayerConfig, TransformerSettings
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.training import SubwordTraining
from t2t_repro.training.schedule import TrainingSchedule
from t2t_repro.training.settings import StepSettings, adam
from table_3 import TABLE_3, Row
from tests.processes import CHECKOUT
from tests.token_stores import random_pairs, write_token_store

FILES = sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "gin").rglob("*.gin"))
ABLATIONS = [row for row in TABLE_3 if row.group not in ("base", "big")]


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch):
    monkeypatch.chdir(CHECKOUT)


def bound(name):
    """The value of a binding, or None."""
    try:
        return gin.query_parameter(name)
    except ValueError:
        return None


def rate(step):
    """The learning rate of the update that the paper counts as `step`."""
    return float(adam()._learning_rate(step - 1))


def betas():
    """Adam's β1, β2 and ε."""
    optimizer = adam()
    return optimizer.beta_1, optimizer.beta_2, optimizer.epsilon


def rows():
    """Of the embedding: one for every subword, unless bound."""
    return bound("Transformer.vocab_size") or SubwordTraining().vocab_size


def source_rows():
    """Of the source's own embedding; None where it is the target's."""
    if not bound("prepare.source_subwords"):
        return None
    with gin.config_scope("source"):
        return SubwordTraining().vocab_size


def sizes():
    """The sizes of the model that is configured."""
    return {
        "vocab_size": rows(),
        "num_layers": bound("Transformer.num_layers") or 6,
        "config": LayerConfig().to_dict(),
        "positional_encoding": bound("Transformer.positional_encoding") or "interleaved",
        "max_length": bound("Transformer.max_length"),
        "neighbourhood": bound("Transformer.neighbourhood"),
        "tied_embeddings": "target_softmax" if source_rows() else "all",
        "source_vocab_size": source_rows(),
    }


@pytest.mark.parametrize("gin_file", FILES)
def test_every_line_of_a_file_has_an_effect_and_a_whole_experiment_can_be_put_together(gin_file):
    configure(gin_file)
    LayerConfig()
    TrainingSchedule()
    BeamSearch()
    if not bound("prepare.corpus") or not bound("adam.learning_rate"):
        pytest.skip("a part of experiments, included by others")
    # The embedding has a row for every subword.
    assert rows() >= SubwordTraining().vocab_size
    schedule = adam()._learning_rate
    rates = [float(schedule(step)) for step in range(0, 20_000, 500)]
    assert min(rates) >= 0
    assert 0 < max(rates) < 0.02
    # One layer is as the others; in a graph nothing is allocated.
    configure(gin_file, ["Transformer.num_layers = 1"])
    with tf.Graph().as_default():
        settings = TransformerSettings(rows(), source_vocab_size=source_rows())
        model = Transformer(**vars(settings))
        model.build()
    assert model.count_params() == parameter_count(sizes())


def test_fine_tuning_on_a_thousand_pairs_has_many_full_batches(tmp_path):
    """After the file of a model whose own batches are 25 times as large."""
    (tmp_path / "mine.gin").write_text("include 'gin/base.gin'\ninclude 'gin/fine_tune.gin'\n")
    configure(tmp_path / "mine.gin")
    pairs = random_pairs(1000, 100, (4, 60))
    store = write_token_store(tmp_path / "store", pairs, vocab_size=100)
    report = Batches(store, BatchSettings(), 1, StepSettings().micro_batches).report()
    assert report.batches > 25
    assert report.real_share > 0.9
    assert TrainingSchedule().evaluate_every < 5 * report.batches


@pytest.mark.parametrize(
    ("gin_file", "d_model", "d_ff", "heads", "dropout", "steps", "millions"),
    [
        ("gin/base_ende.gin", 512, 2048, 8, 0.1, 100_000, 65.07),
        ("gin/base_enfr.gin", 512, 2048, 8, 0.1, 100_000, None),
        ("gin/big_ende.gin", 1024, 4096, 16, 0.3, 300_000, 214.17),
        ("gin/big_enfr.gin", 1024, 4096, 16, 0.1, 300_000, None),
    ],
)
def test_the_paper_s_numbers(gin_file, d_model, d_ff, heads, dropout, steps, millions):
    configure(gin_file)
    config = LayerConfig()
    assert (config.d_model, config.d_ff, config.num_heads) == (d_model, d_ff, heads)
    assert (config.key_depth, config.value_depth, config.dropout) == (64, 64, dropout)
    assert (config.attention_dropout, config.relu_dropout, config.normalization) == (0, 0, "post")
    assert bound("Transformer.num_layers") == 6
    assert bound("CrossEntropy.label_smoothing") == 0.1
    assert TrainingSchedule().steps == steps
    assert betas() == (0.9, 0.98, 1e-9)
    # Section 5.3, equation 3: its peak is at the end of the warm-up.
    for step in (1, 4000, steps):
        equation_3 = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert rate(step) == pytest.approx(equation_3, rel=1e-5)
    # Sections 5.1 and 6.1.
    assert bound("Batches.tokens_per_batch") == 25_000
    assert (BeamSearch().beam_size, BeamSearch().length_penalty) == (4, 0.6)
    assert bound("Translator.max_extra_length") == 50
    assert bound("Checkpoints.keep") >= 20
    # A checkpoint in ten minutes, section 6.1; seconds a step from section 5.2.
    seconds_a_step = {100_000: 0.4, 300_000: 1.0}[steps]
    assert bound("Checkpoints.every_steps") * seconds_a_step == 600
    if millions:
        assert parameter_count(sizes()) / 1e6 == pytest.approx(millions, abs=0.01)


def bindings():
    """All that is bound, by name; a macro by its own."""
    lines = re.findall(r"^([\w./]+) = (?:\\\n\s*)?(.+)$", gin.config_str(), re.MULTILINE)
    return {
        name: value if {"@", "%"} & set(value) else ast.literal_eval(value) for name, value in lines
    }


def gin_file(row: Row) -> str:
    return f"gin/ablations/{row.name}.gin"


def test_table_3_has_a_file_for_every_row_and_no_other():
    files = [gin_file(row) for row in ABLATIONS]
    assert sorted(files) == [name for name in FILES if name.startswith("gin/ablations/")]
    assert [row.group for row in TABLE_3] == ["base", *"AAAABBCCCCCCCDDDDE", "big"]


@pytest.mark.parametrize("row", ABLATIONS, ids=lambda row: row.name)
def test_an_ablation_differs_from_base_in_what_the_table_says_and_in_nothing_else(row):
    configure("gin/base_ende.gin")
    base = bindings()
    configure(gin_file(row))
    own = bindings()
    changed = {name: value for name, value in own.items() if base.get(name) != value}
    if row.group == "E":
        assert changed.pop("Transformer.max_length") == 256
        assert changed == {"Transformer.positional_encoding": "learned"}
    else:
        # As its name says: a_16_heads has one binding, and that is of 16 heads.
        ((name, value),) = changed.items()
        (number,) = re.findall(r"\d+(?:_\d)?", row.name)
        assert value == float(number.replace("_", "."))
        assert row.name[2:].replace(number, "").strip("_s") in name
    assert set(base) <= set(own)
    config = LayerConfig()
    if row.group != "B":
        assert config.key_depth == config.value_depth == config.d_model // config.num_heads
    assert abs(parameter_count(sizes()) / 1e6 - row.millions) < 0.53


@pytest.mark.parametrize(
    ("name", "d_model", "tokens"), [("base", 512, 32768), ("big", 1024, 16384)]
)
def test_tensor2tensor_s_later_recipe(name, d_model, tokens):
    configure(f"gin/t2t_{name}_ende.gin")
    config = LayerConfig()
    assert (config.d_model, config.normalization) == (d_model, "pre")
    assert (config.attention_dropout, config.relu_dropout) == (0.1, 0.1)
    assert config.dropout == {"base": 0.1, "big": 0.3}[name]
    assert betas() == (0.9, 0.997, 1e-9)
    for step in (1, 8000, 100_000):
        expected = 2.0 * d_model**-0.5 * min(step**-0.5, step * 8000**-1.5)
        assert rate(step) == pytest.approx(expected, rel=1e-5)
    assert bound("Transformer.positional_encoding") == "concatenated"
    assert bound("Batches.tokens_per_batch") == tokens


def test_the_paper_s_bleu_is_measured_beside_sacrebleu_s():
    for name, language in (("base_ende", "de"), ("big_enfr", "fr")):
        configure(f"gin/{name}.gin")
        line = ["Das ist ein so-genannter „Test“."]
        scores = [metric(line, line, line) for metric in EvaluationSettings().metrics]
        assert [score.name for score in scores] == ["BLEU", "chrF", PAPER_BLEU]
        assert f"moses:{language}" in scores[2].signature


@pytest.mark.parametrize(
    ("name", "vocab", "dropout", "warmup"),
    [("parsing_wsj", 16_000, 0.2, 16_000), ("parsing_semi_supervised", 32_000, 0.1, 4000)],
)
def test_parsing_has_the_numbers_of_section_6_3(name, vocab, dropout, warmup):
    configure(f"gin/{name}.gin")
    config = LayerConfig()
    assert (bound("Transformer.num_layers"), config.d_model) == (4, 1024)
    # "All other parameters remained unchanged from the ... base translation model."
    assert (config.d_ff, config.num_heads, config.key_depth) == (2048, 8, 128)
    assert config.normalization == "post"
    assert bound("CrossEntropy.label_smoothing") == 0.1
    assert betas() == (0.9, 0.98, 1e-9)
    assert SubwordTraining().vocab_size == rows() == vocab
    assert (BeamSearch().beam_size, BeamSearch().length_penalty) == (21, 0.3)
    assert bound("Translator.max_extra_length") == 300
    # T2T's transformer_parsing_base and _big.
    assert (config.dropout, config.attention_dropout, config.relu_dropout) == (dropout, dropout, 0)
    assert rate(warmup) == pytest.approx(0.5 * (1024 * warmup) ** -0.5, rel=1e-5)
    assert bound("prepare.max_length") == 512
    line = "S NP NN /NP VP VBZ /VP /S"
    names = [metric([line], [line], [line]).name for metric in EvaluationSettings().metrics]
    assert names == ["bracket F1", "strict bracket F1", "share of trees"]


@pytest.mark.parametrize("name", ["quickstart", "quickstart_both_ways"])
def test_the_quick_start_s_rate_ends_with_its_training(name):
    configure(f"gin/{name}.gin")
    steps = TrainingSchedule().steps
    rates = [rate(step) for step in (1, 76, 151, (151 + steps) / 2, steps)]
    assert rates == pytest.approx([0, 0.002, 0.004, 0.002, 0], abs=2e-5)
