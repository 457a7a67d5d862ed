"""The whole pipeline, small: text, data, training with evaluation and checkpoints, average.

Every stage runs as `python -m` runs it, in a child of this process, which has imported TensorFlow
but not used it: so a start costs no import, and a kill takes no more than the stage.
"""

import functools
import hashlib
import json
import mmap
import os
import random
import runpy
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.injection import Fault, Place, install
from tests.processes import in_child

GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('../train.source', '../train.target')
TextFilesCorpus.dev = ('../dev.source', '../dev.target')
prepare.max_length = 24
SubwordTraining.vocab_size = 280
Transformer.vocab_size = 280
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.d_ff = 16
LayerConfig.num_heads = 2
LayerConfig.dropout = 0.2
TrainStep.micro_batches = 4
choose_strategy.cpu_replicas = 2
train.deterministic = True
Batches.tokens_per_batch = 384
Batches.max_shapes = 2
adam.learning_rate = @TransformerSchedule()
TransformerSchedule.d_model = 8
TransformerSchedule.warmup_steps = 10
Translator.max_extra_length = 2
BeamSearch.beam_size = 2
TrainingSchedule.steps = 60
TrainingSchedule.log_every = 3
TrainingSchedule.evaluate_every = 10
Checkpoints.every_steps = 4
Checkpoints.keep = 3
"""

EXPERIMENT = ("--gin_file=../tiny.gin", "--data_dir=data")
STAGES = (
    ("datagen", EXPERIMENT),
    ("trainer", (*EXPERIMENT, "--model_dir=model")),
    ("average", ("--model_dir=model", "--last=2")),
)

# Says how fast this machine was, and so differs between any two runs.
_SPEED = "train/real_tokens_per_second"


def write_corpus(folder: Path) -> None:
    """Writes 200 sentence pairs to train on, a target being its source reversed; 4 of dev."""
    generator = random.Random(0)
    words = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
    sources = [" ".join(generator.choices(words, k=generator.randint(3, 6))) for _ in range(204)]
    for name, part in (("dev", sources[:4]), ("train", sources[4:])):
        (folder / f"{name}.source").write_text("".join(f"{line}\n" for line in part))
        reversed_lines = (" ".join(reversed(line.split())) for line in part)
        (folder / f"{name}.target").write_text("".join(f"{line}\n" for line in reversed_lines))
    (folder / "tiny.gin").write_text(GIN + "Cleaning.drop_held_out = False\n")


class Outcome:
    """How an attempt at the pipeline ended.

    Attributes:
        status: of the last stage: 0, or minus the signal that killed it.
        stage: its name.
        place: what it was doing.
        seconds: that the attempt took.
        writes: file operations that it made.
    """

    def __init__(self, status: int, stage: str, place: Place, seconds: float) -> None:
        self.status = status
        self.stage = stage
        self.place = place.name
        self.seconds = seconds
        self.writes = place.writes

    def __str__(self) -> str:
        return f"{self.stage}: {self.place}"


def attempt(folder: Path, fault: Fault | None = None) -> Outcome:
    """Runs the stages one after the other, until one does not end well.

    Args:
        folder: where the pipeline keeps everything; the corpus lies beside it.
        fault: what is to happen meanwhile.
    """
    folder.mkdir(exist_ok=True)
    place = Place(mmap.mmap(-1, 64))
    began = time.monotonic()
    stage, status = "", 0
    for stage, arguments in STAGES:
        place.begin("start")
        deadline = began + fault.seconds if fault and fault.seconds else None
        verb = functools.partial(_run_verb, folder, stage, arguments, fault, place)
        status = in_child(verb, deadline)
        if status:
            break
    return Outcome(status, stage, place, time.monotonic() - began)


def _run_verb(
    folder: Path, stage: str, arguments: Sequence[str], fault: Fault | None, place: Place
) -> None:
    os.chdir(folder)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = [stage, *arguments]
    install(fault, place)
    runpy.run_module(f"t2t_repro.{stage}", run_name="__main__", alter_sys=True)


def fingerprint(folder: Path) -> dict[str, str]:
    """All that has to be the same whatever happened: names of what there is, and digests.

    Of checkpoints every tensor counts, and of TensorBoard's curves, as TensorBoard reads them,
    every point but its wall time.
    """
    report = folder / "fingerprint.json"
    report.unlink(missing_ok=True)
    status = in_child(lambda: _write_fingerprint(folder, report))
    if status:
        return {"fingerprint": f"cannot be taken: status {status}"}
    found: dict[str, str] = json.loads(report.read_text())
    return found


def _write_fingerprint(folder: Path, report: Path) -> None:
    found = {}
    for path in sorted((folder / "data").rglob("*")):
        if path.is_file() and path.name != "verified.json":
            found[str(path.relative_to(folder))] = _digest(path.read_bytes())
    for path in sorted((folder / "model").rglob("*")):
        if path.is_file() and "tfevents" not in path.name:
            name = str(path.relative_to(folder))
            found[name] = _digest(path.read_bytes())
            if path.suffix == ".index":
                found |= _tensors(path.with_suffix(""), name.removesuffix(".index"))
    report.write_text(json.dumps(found | _curves(folder / "model" / "tensorboard")))


def _tensors(path: Path, name: str) -> dict[str, str]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path))
    return {
        f"{name}: {key}": _digest(bytes(memoryview(reader.get_tensor(key)).cast("B")))
        if reader.get_variable_to_dtype_map()[key] != tf.string
        else _digest(reader.get_tensor(key))
        for key in reader.get_variable_to_shape_map()
    }


def _curves(directory: Path) -> dict[str, str]:
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    found = {}
    for tag in events.Tags()["tensors"]:
        points = [
            (event.step, tf.make_ndarray(event.tensor_proto).tolist() if tag != _SPEED else 0)
            for event in events.Tensors(tag)
        ]
        found[f"curve {tag}"] = str(points)
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
