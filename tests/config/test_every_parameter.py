"""Every parameter of every configurable, given what nobody can mean: one line, before anything."""

import inspect

import gin
import pytest

from t2t_repro import experiment  # noqa: F401 (for gin)
from t2t_repro.config.configurables import parameters_of
from t2t_repro.config.gin_files import configure
from t2t_repro.config.values import constructor_of
from t2t_repro.errors import UserError
from t2t_repro.experiment import TRAINING_ROOTS

NAMES = sorted(
    selector.split(".")[-1]
    for selector, _ in gin.config._REGISTRY.items()
    if selector.startswith("t2t_repro.")
)
HUGE = "1" + "0" * 30
ODD = [
    *("0", "-1", "0.5", "-0.5", "10.5", HUGE, f"-{HUGE}", "1e308", "1e999", "-1e999"),
    *("'many'", "''", "'bleu'", "None", "True", "[]", "{}", "['many']", "[0]", "()"),
    *(
        "@bleu",
        "@bleu()",
        "@TextFilesCorpus",
        "@TrainingSchedule()",
        "@adam",
        "@adam()",
        "@BeamSearch",
    ),
    *("@InverseSquareRoot", "@InverseSquareRoot()", "[@bleu]", "[@bleu()]", "@TextFilesCorpus()"),
]

EXPERIMENT = {
    "prepare.corpus": "@TextFilesCorpus()",
    "adam.learning_rate": "@InverseSquareRoot()",
    "TransformerSchedule.d_model": "8",
    "InverseSquareRoot.peak": "1e-3",
    "LayerConfig.d_model": "8",
    "LayerConfig.num_heads": "2",
    "Transformer.vocab_size": "9",
    "GivenSubwords.model_dir": "'a'",
    "Mixture.corpora": "{'a': @TextFilesCorpus()}",
    "Reversed.corpus": "@TextFilesCorpus()",
    "NoisedSource.corpus": "@TextFilesCorpus()",
    "TextFilesCorpus.train": "'a.tsv'",
    "TextFilesCorpus.dev": "'a.tsv'",
    "TreebankCorpus.train": "'a'",
    "TreebankCorpus.dev": "'a'",
}
"""What has no default."""

ONES = ("0", "0.5")
WHOLE = ("0", "-1", HUGE, f"-{HUGE}")
FLAG = ("True",)
NAME = ("'many'", "'bleu'")
FILES = (*NAME, "['many']")
TAKEN = {
    "Aligner.layer": ("None",),
    "Batches.segmentation": ("None",),
    "BeamSearch.length_penalty": ("0", "0.5", "10.5"),
    "BeamSearch.penalty": ("@InverseSquareRoot()",),
    "Checkpoints.every_minutes": ("0", "0.5", "10.5", "None"),
    "Cleaning.drop_duplicates": FLAG,
    "Cleaning.drop_held_out": FLAG,
    "Cleaning.max_length_ratio": ("10.5",),
    "CrossEntropy.label_smoothing": ONES,
    "DevEvaluation.metric": ("@bleu",),
    "DevEvaluation.sentences": ("None",),
    "DevEvaluation.images": ("None",),
    "GeneratedCorpus.seed": WHOLE,
    "GivenSubwords.model_dir": NAME,
    "GivenSubwords.side": ("None",),
    "GivenSubwords.symbols": ("[]", "()"),
    "InverseSquareRoot.peak": ("0.5", "10.5"),
    "LayerConfig.attention_biases": FLAG,
    "LayerConfig.attention_dropout": ONES,
    "LayerConfig.d_k": ("None",),
    "LayerConfig.d_v": ("None",),
    "LayerConfig.dropout": ONES,
    "LayerConfig.norm_epsilon": ("0.5",),
    "LayerConfig.recompute": FLAG,
    "LayerConfig.relu_dropout": ONES,
    "find_workers.limit_minutes": ("0.5", "10.5"),
    "Mixture.epoch_sentences": ("None",),
    "Mixture.tags": ("None", "{}"),
    "Mixture.temperature": ("10.5", "None"),
    "Mixture.weights": ("None",),
    "MovingAverage.decay": ("0.5", "None"),
    "Multi30kCorpus.local_dir": (*NAME, "None"),
    "Multi30kCorpus.pretokenized": FLAG,
    "NoisedSource.corpus": ("@TextFilesCorpus()",),
    "NoisedSource.deletion": ("0", "0.5"),
    "NoisedSource.distance": ("0",),
    "NoisedSource.filler": NAME,
    "NoisedSource.filling": ("0", "0.5"),
    "NoisedSource.seed": ("0",),
    "TrainingSchedule.patience": ("None",),
    "Reversed.corpus": ("@TextFilesCorpus()",),
    "Sampling.nucleus": ("0.5", "None"),
    "Sampling.seed": ("0",),
    "Sampling.temperature": ("0.5", "10.5"),
    "Sampling.top_k": ("None",),
    "SubwordDropout.probability": ("0", "0.5"),
    "SubwordDropout.workers": ("None",),
    "SubwordTraining.character_coverage": ("0.5",),
    "SubwordTraining.seed": WHOLE,
    "SubwordTraining.split_digits": FLAG,
    "SubwordTraining.split_scripts": FLAG,
    "SubwordTraining.symbols": ("[]", "()"),
    "TextFilesCorpus.dev": (*FILES, "None"),
    "TextFilesCorpus.test": (*FILES, "None"),
    "TextFilesCorpus.train": FILES,
    "TfdsCorpus.data_dir": (*NAME, "None"),
    "TfdsCorpus.dev_split": (*NAME, "None"),
    "TfdsCorpus.name": NAME,
    "TfdsCorpus.source_language": NAME,
    "TfdsCorpus.target_language": NAME,
    "TfdsCorpus.test_split": (*NAME, "None"),
    "TfdsCorpus.train_split": NAME,
    "TrainStep.frozen": ("[]", "()", "['many']"),
    "TrainStep.loss": ("None",),
    "Transformer.config": ("None", "{}"),
    "Transformer.logits_bias": FLAG,
    "Transformer.max_length": ("None",),
    "Transformer.neighbourhood": ("None",),
    "Transformer.source_vocab_size": ("None",),
    "TransformerSchedule.constant": ("0.5", "10.5"),
    "Translator.rerank": ("None",),
    "Translator.forbid_pad": FLAG,
    "Translator.renormalize": FLAG,
    "Translator.max_extra_length": ("0",),
    "Translator.search": ("None",),
    "Translator.workers": ("None",),
    "TreebankCorpus.dev": (*FILES, "None"),
    "TreebankCorpus.folder": NAME,
    "TreebankCorpus.test": (*FILES, "None"),
    "TreebankCorpus.train": FILES,
    "adam.beta_1": ONES,
    "adam.beta_2": ONES,
    "adam.clip_norm": ("0.5", "10.5", "None"),
    "adam.epsilon": ("0.5", "10.5"),
    "adam.learning_rate": ("0.5", "10.5", "@InverseSquareRoot()"),
    "evaluate.metrics": ("[@bleu]",),
    "bracket_f1.longest": ("None",),
    "paper_bleu.language": NAME,
    "paper_bleu.split_compounds": FLAG,
    "prepare.corpus": ("@TextFilesCorpus()",),
    "prepare.source_subwords": ("None",),
    "prepare.workers": ("None",),
    "train.callbacks": ("[]", "()"),
    "train.deterministic": FLAG,
    "train.optimizer": ("@adam",),
    "train.init_checkpoint": (*NAME, "None"),
    "train.init_from": (*NAME, "None"),
    "train.seed": ("0",),
    "use_xla.jit_compile": ("True", "None"),
}
"""What can be meant after all, of the odd values; for all other parameters none can."""


def make(name):
    """Makes what a configurable makes, where a gin file gives all that it needs."""
    made = gin.get_configurable(name)
    needed = {
        parameter.name
        for parameter in inspect.signature(constructor_of(made)).parameters.values()
        if parameter.default is parameter.empty and parameter.name != "self"
    }
    # Devices cannot be chosen again.
    if needed <= set(parameters_of(name)) and name != "choose_strategy":
        made()


def refusal(name, parameter, value):
    """The line that a binding ends in, or None if it is taken."""
    bound = EXPERIMENT | {f"{name}.{parameter}": value}
    lines = [f"{parameter} = {value}" for parameter, value in bound.items()]
    try:
        configure(None, lines, [*TRAINING_ROOTS, *NAMES])
        make(name)
    except UserError as error:
        # gin adds lines about the call that it made.
        return str(error).splitlines()[0]
    return None


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_meant_is_one_line_that_names_the_parameter(name):
    for parameter in parameters_of(name):
        lines = {value: refusal(name, parameter, value) for value in ODD}
        taken = {value for value, line in lines.items() if line is None}
        assert taken == set(TAKEN.get(f"{name}.{parameter}", ())), f"{name}.{parameter}"
        for value, line in lines.items():
            if line:
                # Of two that lead to each other, either may be named.
                is_named = line.startswith(f"{name}.{parameter} is ")
                assert is_named or line.endswith("expected what does not lead back to itself."), (
                    line
                )
                assert ", expected" in line
                assert len(line) < 250, value


def test_the_walk_misses_nothing():
    assert {"TrainingSchedule", "train", "prepare", "bleu", "TextFilesCorpus", "use_xla"} <= set(
        NAMES
    )
    every = {f"{name}.{parameter}" for name in NAMES for parameter in parameters_of(name)}
    assert len(every) > 80
    assert set(TAKEN) <= every


def test_a_configurable_of_the_user_s_is_held_against_its_annotations():
    @gin.configurable
    class OwnSchedule:
        def __init__(self, peak: float, steps: "int" = 1, metric: "NoSuchName" = None) -> None:  # type: ignore[name-defined] # noqa: F821
            pass

    @gin.configurable
    def own_metric(translations: list[str], references: list[str], depth: int = 1):
        pass

    def bind(line):
        configure(None, [line], ["OwnSchedule", "DevEvaluation", "own_metric", "adam"])

    # What it returns is not said.
    bind("DevEvaluation.metric = @own_metric")
    bind("OwnSchedule.metric = 3")
    for line, message in [
        ("OwnSchedule.peak = 'x'", r"^OwnSchedule\.peak is 'x', expected a number\.$"),
        ("own_metric.depth = 0.5", r"^own_metric\.depth is 0\.5, expected an integer\.$"),
        (
            "adam.learning_rate = @OwnSchedule()",
            r"is @OwnSchedule\(\), expected a number .* or a Learning",
        ),
        ("DevEvaluation.metric = @OwnSchedule", "is @OwnSchedule, expected a function or class th"),
    ]:
        with pytest.raises(UserError, match=message):
            bind(line)
