"""Whole runs through the command lines, each made once for all tests and processes of a run.

The tasks take no time to learn: every word has one translation, and the order stays.
"""

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.commands import Outcome, outcomes_of
from tests.processes import held_folder

WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
LETTERS = ["альфа", "буки", "веди", "глаголь", "добро", "есть", "живете", "зело"]
CYRILLIC = dict(zip(WORDS, LETTERS, strict=True))

# Of an experiment; later bindings win.
GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('train.source', 'train.target')
TextFilesCorpus.dev = ('dev.source', 'dev.target')
TextFilesCorpus.test = ('test.source', 'test.target')
# The vocabulary is small: a target may be another source.
Cleaning.drop_held_out = False
prepare.max_length = 40
SubwordTraining.vocab_size = 300

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
TrainingSchedule.log_every = 50
Checkpoints.every_steps = 50
DevEvaluation.sentences = 10
BeamSearch.beam_size = 2
train.deterministic = True
"""

MODEL, DATA = "--model_dir=model", "--data_dir=data"


class Run(NamedTuple):
    """Commands that have ended well.

    Attributes:
        folder: where they ran.
        outcomes: what they printed, by the names that the task gives them.
    """

    folder: Path
    outcomes: dict[str, Outcome]


# Verb, arguments and standard input.
Command = tuple[str, Sequence[str], str]


def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Mapping[str, Command]]
) -> Run:
    """Runs a task's commands, unless another process of the same test run has done so.

    Args:
        factory: says where the test run keeps its files.
        name: of the task.
        make: writes the task's files into a folder, and returns its commands by name.
    """
    with held_folder(factory, name) as folder:
        finished = folder / "outcomes.json"
        if not finished.exists():
            shutil.rmtree(folder)
            folder.mkdir()
            commands = make(folder)
            outcomes = dict(zip(commands, outcomes_of([*commands.values()], folder), strict=True))
            for command, outcome in outcomes.items():
                assert outcome.status == 0, f"{command}: {outcome.err}"
            finished.write_text(json.dumps(outcomes))
    found = json.loads(finished.read_text())
    return Run(folder, {command: Outcome(*outcome) for command, outcome in found.items()})


def sentences(number: int, longest: int = 4) -> list[str]:
    """Returns different sentences of a few words, always the same ones."""
    draw = random.Random(0)
    lines: dict[str, None] = {}
    while len(lines) < number:
        lines[" ".join(draw.choices(WORDS, k=draw.randint(2, longest)))] = None
    return [*lines]


def translated(line: str, meaning: Mapping[str, str]) -> str:
    """Returns the right translation of a sentence."""
    return " ".join(meaning[word] for word in line.split())


def write_task(folder: Path, gin: str) -> None:
    """Writes texts, and the experiment task.gin."""
    lines = sentences(1500)
    for name, part in (("dev", lines[:20]), ("test", lines[20:60]), ("train", lines[60:])):
        write_lines(folder / f"{name}.source", part)
        write_lines(folder / f"{name}.target", [translated(line, CYRILLIC) for line in part])
    (folder / "task.gin").write_text(gin)


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes a file of text."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def lines_of(path: Path) -> list[str]:
    """Reads a file of text."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def trainer(model: str, steps: int, *bindings: str) -> Command:
    """Returns the command that trains on task.gin."""
    given = (f"TrainingSchedule.steps = {steps}", *bindings)
    parameters = [f"--gin_param={binding}" for binding in given]
    return "trainer", ["--gin_file=task.gin", DATA, f"--model_dir={model}", *parameters], ""
