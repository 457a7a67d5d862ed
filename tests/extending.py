"""The examples of docs/extending.md, each walked from its gin file to a server's answer.

    python -m tests.extending [title ...]

trains each alone on two replicas, kills it, goes on, averages, translates, evaluates, exports and
serves. The tests do that with all of them together.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.commands import Outcome, outcomes_of
from tests.processes import CHECKOUT

PAGE = CHECKOUT / "docs" / "extending.md"
BASE = "reversal.gin"
STEPS = 12
_SMALL = [
    "choose_strategy.cpu_replicas = 2",
    "train.deterministic = True",
    f"TrainingSchedule.steps = {STEPS}",
    "TrainingSchedule.log_every = 4",
    "Checkpoints.every_steps = 4",
    "ReversedDigits.sentences = 400",
    "ReversedDigits.length = 5",
    "LayerConfig.d_model = 32",
    "Transformer.num_layers = 1",
    "Batches.max_shapes = 1",
]
_LINES = "1 2 3\n4 5\n"


class Example(NamedTuple):
    """A section of the page.

    Attributes:
        title: its heading.
        modules: Python files, by name.
        gin: its gin file.
    """

    title: str
    modules: dict[str, str]
    gin: str


def examples() -> list[Example]:
    """All sections that have a gin file; the first is what the others include."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        modules = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", section, re.DOTALL))
        bindings = re.findall(r"```gin\n(.*?)```", section, re.DOTALL)
        if bindings:
            found.append(Example(section.splitlines()[0], modules, "".join(bindings)))
    return found


def together(parts: list[Example]) -> Example:
    """All examples in one experiment; what two of them bind, the later one binds."""
    bound = {}
    for line in "".join(part.gin for part in parts[1:]).splitlines():
        if not line.startswith("include"):
            bound[line.partition(" =")[0]] = line
    # The schedule is then the other optimizer's.
    bound["adamw.learning_rate"] = bound.pop("adam.learning_rate").replace("adam.", "adamw.")
    modules = {name: text for part in parts for name, text in part.modules.items()}
    return Example("together", modules, f"include '{BASE}'\n" + "\n".join(bound.values()) + "\n")


def write(example: Example, folder: Path) -> Path:
    """Writes the base experiment and an example, and returns the latter's gin file."""
    base = examples()[0]
    folder.mkdir()
    (folder / BASE).write_text(base.gin, encoding="utf-8")
    for name, text in (base.modules | example.modules).items():
        (folder / name).write_text(text, encoding="utf-8")
    if example == base:
        return folder / BASE
    path = folder / "mine.gin"
    path.write_text(example.gin, encoding="utf-8")
    return path


def trainer(gin_file: Path, model: str) -> list[str]:
    small = [f"--gin_param={binding}" for binding in _SMALL]
    directories = [f"--model_dir={model}", "--data_dir=data"]
    return [f"--gin_file={gin_file}", *directories, *small]


def killed_after(step: int, arguments: list[str], folder: Path, model: str) -> None:
    """Starts the trainer, and kills it once there is a checkpoint of a step."""
    command = [sys.executable, "-m", "t2t_repro.trainer", *arguments]
    checkpoint = folder / model / "checkpoints" / f"step-{step}.index"
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 300
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    error = process.communicate()[1]
    assert process.returncode == -signal.SIGKILL, error


def walk(gin_file: Path, folder: Path) -> list[Outcome]:
    """Trains, kills, goes on and so on; what became of the commands behind the kill.

    The commands: an uninterrupted run in `whole`, the rest of the killed one in `model`, average,
    translate, evaluate, export.
    """
    killed_after(4, trainer(gin_file, "model"), folder, "model")
    model = "--model_dir=model"
    return outcomes_of(
        [
            ("trainer", trainer(gin_file, "whole"), ""),
            ("trainer", trainer(gin_file, "model"), ""),
            ("average", [model, "--last=2"], ""),
            ("translate", [model], _LINES),
            ("evaluate", [model, "--data_dir=data", "--split=test"], ""),
            ("export", [model, "--export_dir=servable"], ""),
        ],
        folder,
    )


def check(outcomes: list[Outcome], folder: Path, is_served_alike: bool) -> None:
    """Checks what a walk has left; a servable cannot choose as `translate` does."""
    for outcome in outcomes:
        assert outcome.status == 0, outcome.err
    whole, resumed, _, translated, _, _ = outcomes
    assert "going on after step" in resumed.err
    assert "going on after step" not in whole.err
    assert_same_checkpoints(folder / "whole", folder / "model")
    answer = served(folder / "servable")
    # Other characters than a newline may end lines for Python.
    lines = translated.out.removesuffix("\n").split("\n")
    assert len(answer) == len(lines) == 2
    assert not is_served_alike or answer == lines


def assert_same_checkpoints(first: Path, second: Path) -> None:
    """Weights, optimizer and averages, bit for bit."""
    import tensorflow as tf

    readers = [
        tf.train.load_checkpoint(str(path / "checkpoints" / f"step-{STEPS}"))
        for path in (first, second)
    ]
    names = {name for name in readers[0].get_variable_to_dtype_map() if "VARIABLE_VALUE" in name}
    names = {name for name in names if not name.startswith("state")}
    assert len(names) > 20
    for name in names:
        np.testing.assert_array_equal(*(reader.get_tensor(name) for reader in readers))


def served(servable: Path) -> list[str]:
    """Returns the SavedModel's translations of the lines."""
    import tensorflow as tf

    signature = tf.saved_model.load(str(servable / "1")).signatures["serving_default"]
    answer = signature(source=tf.constant(_LINES.encode().splitlines()))
    return [text.decode() for text in answer["translation"].numpy()]


def main() -> None:
    """Walks each example that is named, or all."""
    for example in examples():
        if sys.argv[1:] and example.title not in sys.argv[1:]:
            continue
        folder = Path(tempfile.mkdtemp())
        began = time.monotonic()
        gin_file = write(example, folder / "mine")
        check(walk(gin_file, folder), folder, "Translator.rerank" not in example.gin)
        print(f"{example.title}: as promised ({time.monotonic() - began:.0f} s)", flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
