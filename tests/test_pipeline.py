"""From text files to BLEU through the real command lines: a small task is learnt, and all is kept.

The target is the source with its words in reverse order.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from t2t_repro.evaluation.scores import bleu
from tests.processes import CHECKOUT, assert_only_our_lines

STEPS = 500
GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('train.source', 'train.target')
TextFilesCorpus.dev = ('dev.source', 'dev.target')
TextFilesCorpus.test = 'test.tsv'
prepare.max_length = 16
# The vocabulary is small: a target may be another source.
Cleaning.drop_held_out = False
SubwordTraining.vocab_size = 300

Transformer.vocab_size = 304
Transformer.num_layers = 2
LayerConfig.d_model = 64
LayerConfig.d_ff = 128
LayerConfig.num_heads = 4
LayerConfig.dropout = 0.1

Batches.tokens_per_batch = 512
Batches.max_shapes = 2
adam.learning_rate = @InverseSquareRoot()
InverseSquareRoot.peak = 0.003
InverseSquareRoot.warmup_steps = 100
TrainingSchedule.log_every = 25
TrainingSchedule.evaluate_every = 250
Checkpoints.every_steps = 20
Checkpoints.keep = 6
"""

LATE = f"""
import shutil
from pathlib import Path
import gin
from t2t_repro.evaluation.scores import Score

@gin.configurable
def late(translations, references, sources) -> Score:
    for file in Path("model/checkpoints").glob("step-{STEPS}.*"):
        shutil.copy(file, file.with_name(file.name.replace("{STEPS}", "{STEPS + 20}")))
    return Score("late", 1.0)
"""


def command(folder, module, *arguments, **options):
    """Starts `python -m t2t_repro.<module>` as a user would, in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(
        [sys.executable, "-m", f"t2t_repro.{module}", *arguments],
        cwd=folder,
        env=environment,
        text=True,
        encoding="utf-8",
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        | options,
    )


def finish(process, given=None, status=0):
    """What a command printed on standard output and standard error; it must end with `status`."""
    try:
        out, err = process.communicate(given, timeout=1200)
    finally:
        process.kill()
    assert process.returncode == status, err
    assert_only_our_lines(err)
    return out, err


def write_task(folder):
    generator = random.Random(0)
    words = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
    sources: dict[str, None] = {}
    while len(sources) < 4150:
        sources[" ".join(generator.choices(words, k=generator.randint(4, 6)))] = None
    pairs = [(source, " ".join(reversed(source.split()))) for source in sources]
    for name, part in (("dev", pairs[:50]), ("test", pairs[50:150]), ("train", pairs[150:])):
        for side, path in enumerate((f"{name}.source", f"{name}.target")):
            (folder / path).write_text("".join(pair[side] + "\n" for pair in part))
    (folder / "test.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs[50:150]))
    (folder / "reverse.gin").write_text(GIN)


def lines_of(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


class Run:
    """A model that was trained, stopped by a signal, trained on and averaged."""

    def __init__(self, folder):
        write_task(folder)
        self.folder = folder
        self.model_dir = folder / "runs" / "reverse" / "model"
        trainer = command(
            folder, "trainer", "--gin_file=reverse.gin", "--gin_param=TrainingSchedule.steps = 300"
        )
        seen = []
        for line in trainer.stderr:
            seen.append(line)
            if "step 50/300" in line:
                trainer.send_signal(signal.SIGTERM)
                break
        _, rest = finish(trainer, status=128 + signal.SIGTERM)
        self.stopped_log = "".join(seen) + rest
        self.stopped_at = self.newest_step()
        _, self.resumed_log = self.train()
        _, self.average_log = finish(
            command(folder, "average", "--model_dir=runs/reverse/model", "--last=5")
        )

    def train(self, *others):
        steps = f"--gin_param=TrainingSchedule.steps = {STEPS}"
        return finish(command(self.folder, "trainer", "--gin_file=reverse.gin", steps, *others))

    def newest_step(self):
        path = tf.train.latest_checkpoint(str(self.model_dir / "checkpoints"))
        return int(path.rsplit("-", 1)[1])

    def events(self):
        """(tag, step, value) of everything in TensorBoard's files, in order."""
        found = []
        for path in sorted((self.model_dir / "tensorboard").iterdir()):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    found.append((value.tag, event.step, tf.make_ndarray(value.tensor)))
        return found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("pipeline"))


def test_a_signal_ends_the_run_with_a_checkpoint_and_it_goes_on_from_there(run):
    assert 50 <= run.stopped_at < 300
    assert f"stopped by a signal after step {run.stopped_at}" in run.stopped_log
    assert f"going on after step {run.stopped_at}\n" in run.resumed_log
    # The data are made once.
    assert "learning 300 subwords" in run.stopped_log
    assert "learning 300 subwords" not in run.resumed_log
    steps = {int(step) for step in re.findall(r"step (\d+)/", run.resumed_log)}
    assert min(steps) > run.stopped_at
    assert max(steps) == STEPS == run.newest_step()


def test_the_task_is_learnt(run):
    out, _ = finish(
        command(run.folder, "evaluate", "--model_dir=runs/reverse/model", "--output=test.out")
    )
    perplexity, bleu_line, chrf_line = out.splitlines()
    assert re.fullmatch(r"test perplexity per subword 1\.\d{3}", perplexity)
    printed = re.match(r"BLEU ([\d.]+)  \[.*tok:13a.*\]$", bleu_line)
    assert printed
    assert float(printed[1]) >= 98.0
    assert chrf_line.startswith("chrF ")
    # The figure is that of the text which was written.
    own = bleu(lines_of(run.folder / "test.out"), lines_of(run.folder / "test.target"))
    assert f"{own.value:.2f}" == printed[1]
    # And it is kept, for the report.
    found = json.loads((run.model_dir / "scores" / "test.json").read_text())
    assert found["checkpoint"] == f"averaged/step-{STEPS}"
    assert f"{found['perplexity']:.3f}" in perplexity
    assert found["scores"][0]["value"] == own.value
    assert found["search"] == "BeamSearch(beam_size=4, length_penalty=0.6, penalty=wu_penalty)"
    epoch = json.loads((run.model_dir / "epoch.json").read_text())
    assert 3900 < epoch["sentences"] <= 4000


def test_scores_are_of_the_checkpoint_that_was_evaluated(run, tmp_path):
    """Though a trainer has written the next one meanwhile."""
    shutil.copytree(run.model_dir, tmp_path / "model")
    (tmp_path / "late.py").write_text(LATE)
    data = f"--data_dir={run.folder / 'runs' / 'reverse' / 'data'}"
    parts = ["--gin_param=import late", "--gin_param=evaluate.metrics = (@late.late,)"]
    own = ["--model_dir=model", data, "--split=dev", "--checkpoint=latest", *parts]
    finish(command(tmp_path, "evaluate", *own))
    found = json.loads((tmp_path / "model" / "scores" / "dev.json").read_text())
    assert found["checkpoint"] == f"checkpoints/step-{STEPS}"


def test_translate_gives_the_same_whatever_it_reads_from(run):
    model_dir = "--model_dir=runs/reverse/model"
    finish(command(run.folder, "translate", model_dir, "--input=test.source", "--output=file.out"))
    translations = lines_of(run.folder / "file.out")
    assert bleu(translations, lines_of(run.folder / "test.target")).value >= 98.0
    assert not (run.folder / "file.out.partial").exists()
    given = "\n".join(["", *lines_of(run.folder / "test.source")[:3], "  "])
    out, _ = finish(command(run.folder, "translate", model_dir, stdin=subprocess.PIPE), given)
    assert out.split("\n") == ["", *translations[:3], "", ""]


def test_a_reader_that_goes_away_is_no_error(run):
    reader, writer = os.pipe()
    os.close(reader)
    process = command(
        run.folder,
        "translate",
        "--model_dir=runs/reverse/model",
        "--input=dev.source",
        stdout=writer,
    )
    os.close(writer)
    _, err = finish(process)
    assert "Broken pipe" not in err
    assert "\nerror: " not in err


def test_a_model_directory_is_complete_in_itself(run):
    names = {path.name for path in run.model_dir.iterdir()}
    assert names == {
        "averaged",
        "best",
        "checkpoints",
        "config.gin",
        "epoch.json",
        "model.json",
        "operative_config.gin",
        "scores",
        "subwords.model",
        "tensorboard",
        "versions.json",
    }
    bound = (run.model_dir / "config.gin").read_text()
    assert f"TrainingSchedule.steps = {STEPS}" in bound
    assert "InverseSquareRoot.peak = 0.003" in bound
    assert "beta_2" not in bound
    operative = (run.model_dir / "operative_config.gin").read_text()
    assert "adam.beta_2 = 0.98" in operative
    assert "CrossEntropy.label_smoothing = 0.1" in operative
    versions = json.loads((run.model_dir / "versions.json").read_text())
    assert versions["tensorflow"] == tf.__version__
    assert set(versions) >= {"t2t_repro", "tensorflow", "keras", "python"}
    assert json.loads((run.model_dir / "model.json").read_text())["vocab_size"] == 304
    data = run.folder / "runs" / "reverse" / "data" / "prepared"
    assert (run.model_dir / "subwords.model").read_bytes() == (data / "subwords.model").read_bytes()


def test_the_last_checkpoints_are_kept_and_averaged(run):
    def steps(folder):
        names = (run.model_dir / folder).glob("step-*.index")
        return sorted(int(path.stem.split("-")[1]) for path in names)

    assert steps("checkpoints") == list(range(STEPS - 100, STEPS + 1, 20))
    assert steps("averaged") == [STEPS]
    assert steps("best") in ([250], [STEPS])
    assert f"averaged 5 checkpoints, steps {STEPS - 80} to {STEPS}" in run.average_log


def test_tensorboard_has_every_signal_at_the_right_step(run):
    events = run.events()
    scalars: dict[str, dict[int, float]] = {
        tag: {} for tag, _, value in events if value.dtype.kind == "f"
    }
    for tag, step, value in events:
        if tag in scalars:
            assert step not in scalars[tag], "a step is reported once, resumed or not"
            scalars[tag][step] = float(value)
    reported = list(range(25, STEPS + 1, 25))
    for name in (
        "loss",
        "nll",
        "perplexity",
        "learning_rate",
        "gradient_norm",
        "real_tokens_per_second",
        "padding_share",
    ):
        assert sorted(scalars[f"train/{name}"]) == reported
    for name in ("nll", "perplexity", "bleu"):
        assert sorted(scalars[f"dev/{name}"]) == [250, STEPS]
    for step, rate in scalars["train/learning_rate"].items():
        expected = 0.003 * min(step / 100, (100 / step) ** 0.5)
        assert rate == pytest.approx(expected, rel=1e-5)
    assert scalars["train/loss"][STEPS] < 0.3 < 1.0 < scalars["train/loss"][25]
    assert scalars["dev/bleu"][STEPS] > 80
    assert scalars["dev/perplexity"][STEPS] < 2
    assert min(scalars["train/real_tokens_per_second"].values()) > 0
    assert all(0 < share < 0.6 for share in scalars["train/padding_share"].values())
    texts = {tag: str(value) for tag, _, value in events if value.dtype.kind in "OS"}
    assert "InverseSquareRoot.peak = 0.003" in texts["configuration"]
    assert "| source | translation | reference |" in texts["dev/translations"]
    assert lines_of(run.folder / "dev.source")[0] in texts["dev/translations"]


@pytest.mark.parametrize(
    "others", [(), ("--gin_param=train.seed = 7", "--gin_param=Checkpoints.keep = 1")]
)
def test_a_run_that_is_over_stays_as_it_is(run, others):
    def there():
        return {path: path.read_bytes() for path in run.model_dir.rglob("*") if path.is_file()}

    before = there()
    _, log = run.train(*others)
    assert there() == before
    assert (
        f"finished already, after step {STEPS}; to train longer, bind TrainingSchedule.steps" in log
    )
    assert re.findall(r"step (\d+)/", log) == []


def test_a_run_says_what_is_next(run):
    """Commands that work where they are pasted."""
    (line,) = [line for line in run.resumed_log.splitlines() if "finished" in line]
    assert f"finished the last {STEPS - run.stopped_at} of {STEPS} steps in" in line
    average, evaluate = line.split("; next: ")[1].split(", then ")
    assert average == "python -m t2t_repro.average --model_dir=runs/reverse/model --last=5"
    assert evaluate == "python -m t2t_repro.evaluate --model_dir=runs/reverse/model"


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("datagen", ["--gin_file=reverse.gin"]),
        ("export", ["--model_dir=runs/reverse/model", "--export_dir=exported"]),
        ("attention_maps", ["--model_dir=runs/reverse/model", "--source=ant bee", "--output=maps"]),
        ("parse", ["--model_dir=runs/reverse/model", "--input=dev.source"]),
        ("evaluate", ["--translations=dev.source", "--reference=dev.source"]),
    ],
)
def test_no_verb_says_more_than_its_own_lines(run, verb, arguments):
    """As a trainer does, and the others that are started here."""
    _, err = finish(command(run.folder, verb, *arguments))
    # It has learnt to write no trees.
    assert ("no answer closes a constituent" in err) == (verb == "parse")
