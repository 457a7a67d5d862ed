"""A bug, the user's or ours, shows itself: its traceback, in which configurable, status 1.

Each is planted in a module that gin imports, and reached by a command line.
"""

import pytest

from tests.commands import outcomes_of

GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('train.en', 'train.de')
TextFilesCorpus.dev = ('train.en', 'train.de')
Cleaning.drop_held_out = False
Cleaning.drop_duplicates = False
SubwordTraining.vocab_size = 270
Transformer.vocab_size = 300
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.d_ff = 8
LayerConfig.num_heads = 2
BeamSearch.beam_size = 1
Translator.max_extra_length = 1
DevEvaluation.sentences = 1
TrainingSchedule.steps = 1
TrainingSchedule.evaluate_every = 1
"""

MY_PARTS = """
import gin
import keras


@gin.configurable
class MyCorpus:
    splits = ("train", "dev")

    def describe(self):
        return {}

    def prepare(self, download_dir):
        pass

    def read(self, split, download_dir):
        yield "source" + 1, "target"


@gin.configurable
def my_metric(translations, references, sources):
    return sum(translations)


@gin.configurable
class MySchedule(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 4 + "rate"


@gin.configurable
class MyOptimizer(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        variable.assign(5 + "m")
"""

# Without Keras: each worker imports it.
MY_RULES = """
import multiprocessing

import gin

from t2t_repro.data import clean_text
from t2t_repro.data.cleaning import Cleaning

clean_text._PAIRS_IN_BLOCK = 4


@gin.configurable
class MyCleaning(Cleaning):
    def __getattribute__(self, name):
        in_worker = multiprocessing.parent_process() is not None
        return 2 + "max" if in_worker and name == "max_words" else super().__getattribute__(name)
"""

# The text of a module that replaces a part of ours.
PATCHES = {
    "my_layer": """
from t2t_repro.model.feed_forward import FeedForward

def call(self, x, training=None):
    return 6 + "width"

FeedForward.call = call
""",
    "our_bug": """
from t2t_repro.models import transformer

def padding_mask(ids):
    return 7 + "ids"

transformer.padding_mask = padding_mask
""",
}

ADAM = "adam.learning_rate = 0.1"

BUGS = {
    # The verb, its bindings, the line at fault, the configurable that is named.
    "a corpus": (
        "datagen",
        ["import my_parts", "prepare.corpus = @MyCorpus()"],
        'yield "source" + 1',
        "my_parts.MyCorpus",
    ),
    "a worker of the data preparation": (
        "datagen",
        [
            "import my_rules",
            "prepare.cleaning = @MyCleaning()",
            "prepare.workers = 2",
        ],
        'return 2 + "max" if in_worker',
        "my_rules.MyCleaning",
    ),
    "a metric": (
        "trainer",
        ["import my_parts", ADAM, "DevEvaluation.metric = @my_metric"],
        "return sum(translations)",
        "my_parts.my_metric",
    ),
    "a metric of evaluate": (
        "evaluate",
        ["import my_parts", "evaluate.metrics = [@my_metric]"],
        "return sum(translations)",
        "my_parts.my_metric",
    ),
    "a schedule": (
        "trainer",
        ["import my_parts", "adam.learning_rate = @MySchedule()"],
        'return 4 + "rate"',
        "my_parts.MySchedule",
    ),
    "an optimizer": (
        "trainer",
        ["import my_parts", "train.optimizer = @MyOptimizer"],
        'variable.assign(5 + "m")',
        "my_parts.MyOptimizer",
    ),
    "a layer": (
        "trainer",
        ["import my_layer", ADAM],
        'return 6 + "width"',
        "t2t_repro.model.transformer.Transformer",
    ),
    "one of our modules": (
        "trainer",
        ["import our_bug", ADAM],
        'return 7 + "ids"',
        "t2t_repro.model.transformer.Transformer",
    ),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What became of every command of BUGS, by its name."""
    folder = tmp_path_factory.mktemp("bugs")
    for side in ("en", "de"):
        (folder / f"train.{side}").write_text("abc abc\nacb\n" * 20)
    (folder / "tiny.gin").write_text(GIN)
    # What an included file binds need not be used.
    (folder / "my.gin").write_text("include 'tiny.gin'\n")
    for name, text in {"my_parts": MY_PARTS, "my_rules": MY_RULES, **PATCHES}.items():
        (folder / f"{name}.py").write_text(text)
    commands = []
    for number, (verb, bindings, *_) in enumerate(BUGS.values()):
        flags = [f"--gin_param={binding}" for binding in bindings]
        if verb == "evaluate":
            flags += ["--translations=train.en", "--reference=train.de"]
        else:
            flags += ["--gin_file=my.gin"]
            flags += [f"--data_dir=data{number if verb == 'datagen' else ''}"]
        if verb == "trainer":
            flags += [f"--model_dir=model{number}"]
        commands.append((verb, flags, ""))
    return dict(zip(BUGS, outcomes_of(commands, folder), strict=True))


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_keeps_its_traceback_and_says_in_which_configurable_it_is(outcomes, name):
    outcome = outcomes[name]
    *_, line, configurable = BUGS[name]
    assert outcome.status == 1, outcome.err
    assert "Traceback (most recent call last)" in outcome.err
    assert line in outcome.err
    assert "TypeError: " in outcome.err
    assert outcome.err.endswith(f"It happened in the configurable {configurable}.\n")
