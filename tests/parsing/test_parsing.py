"""From a treebank to bracket F1: the stages one after the other, on trees of a small grammar."""

import gin
import pytest
import tensorflow as tf

from t2t_repro import experiment
from t2t_repro.config.gin_text import bindings_in
from t2t_repro.data.prepared import open_data
from t2t_repro.decoding.loading import load, read_settings
from t2t_repro.evaluation.scores import EvaluationSettings
from t2t_repro.parsing.trees import NO_TREE, bracketed, linearise, read_trees, tree_of, words_of
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.training_run import train
from tests.parsing.test_trees import TREEBANK

GIN = f"""
include 'gin/parsing_wsj.gin'
TreebankCorpus.folder = '{TREEBANK}'
TreebankCorpus.train = '02'
TreebankCorpus.test = '02/made*'
prepare.max_length = 80
SubwordTraining.vocab_size = 500
Transformer.num_layers = 1
d_model = 64
LayerConfig.d_ff = 128
LayerConfig.num_heads = 4
LayerConfig.dropout = 0.0
LayerConfig.attention_dropout = 0.0
Batches.tokens_per_batch = 1024
Batches.max_shapes = 1
TrainStep.micro_batches = 1
TransformerSchedule.warmup_steps = 30
TransformerSchedule.constant = 0.13
TrainingSchedule.steps = 110
TrainingSchedule.evaluate_every = 110
Checkpoints.every_steps = 110
BeamSearch.beam_size = 2
Translator.max_extra_length = 40
Translator.workers = 1
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a model that was trained, and its data."""
    folder = tmp_path_factory.mktemp("parsing")
    (folder / "tiny.gin").write_text(GIN)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(TREEBANK.parents[1])
            settings = experiment.read(folder / "tiny.gin")
            train(settings, experiment.configuration, folder / "model", folder / "data")
    finally:
        gin.clear_config()
    return folder


def test_training_selects_by_the_score_that_counts_failures(run):
    tags = set()
    for path in (run / "model" / "tensorboard").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags |= {value.tag for value in event.summary.value}
    assert {tag for tag in tags if tag.startswith("dev/")} == {
        *("dev/nll", "dev/perplexity", "dev/strict_bracket_f1", "dev/translations")
    }
    config = ModelDirectory(run / "model").config_gin.read_text()
    assert "TreebankCorpus.dev = '22'" in config
    # The model has the tags of its treebank's words.
    tags = bindings_in(config)["TreeGrammar.tags"]
    assert "the" in tags["DT"].split(" ")


def test_the_model_parses_what_it_was_trained_on(run):
    sources, references = open_data(run / "data").text("test")
    directory = ModelDirectory(run / "model")
    settings = read_settings(directory, others=experiment.EVALUATION)
    translator = load([(directory, "latest")], settings)
    symbols = [best[0].text for best in translator.translate(sources)]
    metrics = EvaluationSettings().metrics
    score, strict, share = (metric(symbols, references, sources) for metric in metrics)
    assert (score.name, strict.name) == ("bracket F1", "strict bracket F1")
    assert 50 < strict.value <= score.value <= 100
    # The printed trees are trees, of the words that were given.
    assert (share.name, share.value) == ("share of trees", 100)
    trees = [tree_of(words_of(source), line) for source, line in zip(sources, symbols, strict=True)]
    (run / "made.trees").write_text("\n".join(trees))
    assert [" ".join(one.words) for _, one in read_trees(run / "made.trees")] == list(sources)


def test_the_words_are_put_into_the_tree():
    for path in TREEBANK.rglob("*_*"):
        for _, sentence in read_trees(path):
            symbols = linearise(sentence.tree)
            assert tree_of(sentence.words, symbols) == bracketed(sentence)
    assert words_of(" The dog (barks) .\n") == ("The", "dog", "-LRB-barks-RRB-", ".")
    # A no-break space is part of a word, as in trees.
    assert words_of("10\u00a0000 euros\t.") == ("10\u00a0000", "euros", ".")
    assert tree_of(("a",), "NP NN /NP") == "(TOP (NP (NN a)))"
    assert tree_of((), "") == NO_TREE
    for symbols in ("NN NN", "/S", "", "(", "a\n"):
        assert tree_of(("a",), symbols) == NO_TREE
