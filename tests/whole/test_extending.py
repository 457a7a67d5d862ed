"""docs/extending.md: all its examples run together, as one experiment."""

import json

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations)

from tests.whole.extending import examples, write_together
from tests.whole.runs import made_once

BINDINGS = [
    "TrainingSchedule.log_every = 4",
    "Checkpoints.every_steps = 4",
    "ReversedDigits.sentences = 400",
    "ReversedDigits.length = 5",
    "LayerConfig.d_model = 32",
    "Transformer.num_layers = 1",
    "Batches.max_shapes = 1",
]
LINES = ["1 2 3", "4 5"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def make(folder):
        write_together(folder)
        model, data = "--model_dir=model", "--data_dir=data"
        experiment = ["--gin_file=mine.gin", model, data]

        def trained(steps, replicas):
            # The same batches on any devices.
            of_devices = f"choose_strategy.cpu_replicas = {replicas}", "TrainStep.micro_batches = 2"
            bindings = (*BINDINGS, f"TrainingSchedule.steps = {steps}", *of_devices)
            return "trainer", [*experiment, *(f"--gin_param={one}" for one in bindings)], ""

        modules = [f"--import={name}" for part in examples() for name in part.modules]
        own = [model, *(name.removesuffix(".py") for name in modules)]
        return {
            "begun": trained(4, 2),
            "trained": trained(8, 1),
            "translate": ("translate", own, "".join(f"{line}\n" for line in LINES)),
            "evaluate": ("evaluate", [*own, data, "--split=test"], ""),
            "export": ("export", [*own, "--export_dir=servable"], ""),
        }

    return made_once(tmp_path_factory, "extending", make)


def test_each_section_has_an_example():
    parts = examples()
    assert len(parts) >= 11
    for part in parts[1:]:
        assert part.gin.startswith("include 'reversal.gin'\n"), part.title
        assert all(f"import {name[:-3]}\n" in part.gin for name in part.modules)


def test_all_parts_together_train_resume_translate_and_are_exported(run):
    assert "going on after step 4" in run.outcomes["trained"].err
    assert "digit accuracy" in run.outcomes["evaluate"].out
    translated = run.outcomes["translate"].out.split("\n")[:-1]
    loaded = tf.saved_model.load(str(run.folder / "servable" / "1"))
    answer = loaded.signatures["serving_default"](source=tf.constant(LINES))["translation"]
    assert [text.decode() for text in answer.numpy()] == translated


def test_every_part_has_its_effect(run):
    rows = (run.folder / "progress.jsonl").read_text().splitlines()
    assert {"loss", "val_nll", "val_digit_accuracy"} <= json.loads(rows[-1]).keys()
    sizes = json.loads((run.folder / "model" / "model.json").read_text())
    assert sizes["tied_embeddings"] == "target_softmax"
    assert (sizes["source_vocab_size"], sizes["vocab_size"]) == (275, 280)
    assert sizes["config"]["norm"] == "my_norm>ScaleNorm"
    assert sizes["config"]["activation"] == "my_activation>squared_relu"
