"""Two corpora in one run, through the command lines: the tag says what is wanted.

The task: behind <cyr> every word has a translation in other letters, behind <copy> it stays.
"""

import random
import re

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.loading import load_translator
from tests.commands import outcomes_of
from tests.test_two_vocabularies import MEANING

GIN = """
prepare.corpus = @Mixture()
Mixture.corpora = {'cyrillic': @cyrillic/TextFilesCorpus(), 'copies': @copies/TextFilesCorpus()}
Mixture.tags = {'cyrillic': '<cyr>', 'copies': '<copy>'}
Mixture.weights = {'cyrillic': 3, 'copies': 1}
Mixture.epoch_sentences = 401
cyrillic/TextFilesCorpus.train = 'cyrillic.train.tsv'
cyrillic/TextFilesCorpus.dev = 'cyrillic.dev.tsv'
cyrillic/TextFilesCorpus.test = 'cyrillic.test.tsv'
copies/TextFilesCorpus.train = 'copies.train.tsv'
copies/TextFilesCorpus.dev = 'copies.dev.tsv'
# The vocabulary is small: a target may be another source.
Cleaning.drop_held_out = False
SubwordTraining.vocab_size = 330
prepare.max_length = 40

Transformer.num_layers = 1
LayerConfig.d_model = 32
LayerConfig.d_ff = 64
LayerConfig.num_heads = 2
LayerConfig.dropout = 0.0
Batches.tokens_per_batch = 1000
Batches.max_shapes = 2
TrainStep.micro_batches = 2
adam.learning_rate = @InverseSquareRoot()
InverseSquareRoot.peak = 0.006
InverseSquareRoot.warmup_steps = 50
TrainingSchedule.log_every = 100
Checkpoints.every_steps = 20
Checkpoints.keep = 30
train.deterministic = True
DevEvaluation.sentences = 8
DevEvaluation.metric = @chrf
BeamSearch.beam_size = 1
"""
STEPS = 20, 40, 600
EVALUATE = f"TrainingSchedule.evaluate_every = {STEPS[0]}"


def write_task(folder):
    generator = random.Random(0)
    lines = [" ".join(generator.choices(list(MEANING), k=3)) for _ in range(1200)]
    sources = list(dict.fromkeys(lines))
    meanings = [" ".join(MEANING[word] for word in line.split()) for line in sources]
    for name, targets, splits in (
        ("cyrillic", meanings, {"dev": (0, 20), "test": (20, 40), "train": (40, None)}),
        # Fewer: they come round more than once an epoch.
        ("copies", sources, {"dev": (0, 10), "train": (40, 100)}),
    ):
        for split, (start, stop) in splits.items():
            pairs = list(zip(sources, targets, strict=True))[start:stop]
            text = "".join(f"{source}\t{target}\n" for source, target in pairs)
            (folder / f"{name}.{split}.tsv").write_text(text)
    (folder / "mixed.gin").write_text(GIN)


def trainer(model_dir, steps, *bindings):
    given = (f"TrainingSchedule.steps = {steps}", *bindings)
    parameters = [f"--gin_param={binding}" for binding in given]
    return "trainer", ["--gin_file=mixed.gin", "--data_dir=data", model_dir, *parameters], ""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Where commands have run, and what they have said."""
    folder = tmp_path_factory.mktemp("mixture")
    write_task(folder)
    model = "--model_dir=model"
    outcomes = outcomes_of(
        [
            trainer(model, STEPS[0], EVALUATE),
            trainer(model, STEPS[1], EVALUATE),
            trainer(model, STEPS[2], "Mixture.weights = {'cyrillic': 1, 'copies': 1}"),
            trainer("--model_dir=whole", STEPS[1], EVALUATE),
            trainer("--model_dir=two", STEPS[1], "choose_strategy.cpu_replicas = 2"),
            ("evaluate", [model, "--data_dir=data", "--split=dev.copies"], ""),
            (
                "trainer",
                [
                    *("--gin_file=mixed.gin", "--model_dir=tuned", "--data_dir=tuned_data"),
                    *(
                        "--gin_param=TrainingSchedule.steps = 1",
                        "--gin_param=train.init_from = 'model'",
                    ),
                    "--gin_param=Mixture.tags = {'cyrillic': '<cyr> <new>', 'copies': '<copy>'}",
                ],
                "",
            ),
        ],
        folder,
    )
    for outcome in outcomes:
        assert outcome.status == 0, outcome.err
    return folder, outcomes


def variables(checkpoint):
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def found_in(log, pattern):
    found = re.search(pattern, log)
    assert found
    return found[1]


def test_a_run_that_was_stopped_has_every_bit_of_one_that_was_not(made):
    folder, outcomes = made
    one, other = (
        variables(folder / name / "checkpoints" / f"step-{STEPS[1]}") for name in ("model", "whole")
    )
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])
    # Some epochs are over by then.
    assert int(found_in(outcomes[0].err, r"in (\d+) batches")) * 3 < STEPS[0]


def nll_of(log, what="dev"):
    return float(found_in(log, rf"step {STEPS[1]}: {what} nll ([\d.]+)"))


def test_two_replicas_have_the_batches_of_one(made):
    _, outcomes = made
    for what in ("dev", r"dev\.copies", r"dev\.cyrillic"):
        one, two = (nll_of(outcome.err, what) for outcome in (outcomes[3], outcomes[4]))
        assert one == pytest.approx(two, abs=2e-3)


def test_the_log_says_the_shares_and_scores_every_corpus(made):
    folder, outcomes = made
    log = outcomes[0].err
    assert "data: 401 sentence pairs in " in log
    assert re.search(r"; copies 24\.94% of sentences \(100\), .*; cyrillic 75\.06% .*\(301\)", log)
    lengths = PreparedData(folder / "data" / "prepared").store("dev").target_lengths
    copies, cyrillic = (nll_of(outcomes[3].err, rf"dev\.{name}") for name in ("copies", "cyrillic"))
    together = (lengths[:10].sum() * copies + lengths[10:].sum() * cyrillic) / lengths.sum()
    assert nll_of(outcomes[3].err) == pytest.approx(together, abs=2e-4)
    assert outcomes[5].out.startswith("dev.copies perplexity per subword 1.")
    assert (folder / "model" / "scores" / "dev.copies.json").is_file()


def test_other_weights_go_on_with_the_same_data_and_say_so(made):
    _, outcomes = made
    log = outcomes[2].err
    assert "cleaning" not in log
    assert "going on with another configuration: Mixture.weights" in log
    assert "an epoch has 100 sentences of copies there, 201 now: what is left of this one" in log


def test_a_further_tag_of_a_run_that_starts_from_the_model_is_a_further_row(made):
    _, outcomes = made
    assert re.search(r"data: taking 330 subwords from .*, adding <new>: subw", outcomes[-1].err)
    assert "rows of subwords: embedding 330 copied, 1 new" in outcomes[-1].err


def test_the_tag_decides(made):
    folder, _ = made
    translator = load_translator(folder / "model")
    pairs = (folder / "copies.train.tsv").read_text().splitlines()
    lines = [pair.split("\t")[0].split() for pair in pairs[:10]]
    for tag, meaning in (("<copy>", {word: word for word in MEANING}), ("<cyr>", MEANING)):
        given = [f"{tag} {' '.join(line)}" for line in lines]
        found = [best.text.split() for best, *_ in translator.translate(given)]
        latin = [word.isascii() for line in found for word in line]
        assert latin == [tag == "<copy>"] * len(latin)
        # So short a training gets some words wrong.
        right = [[meaning[word] for word in line] for line in lines]
        assert sum(one == other for one, other in zip(found, right, strict=True)) >= 5


def test_tensorboard_has_the_scores_of_every_corpus(made):
    folder, _ = made
    tags = {
        value.tag
        for path in (folder / "model" / "tensorboard").iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    named = {f"dev/{name}/{what}" for name in ("copies", "cyrillic") for what in ("nll", "chrf")}
    assert named | {"dev/nll", "dev/chrf", "dev/perplexity"} <= tags
