"""From text to BLEU through the command lines, and what every verb makes of the model."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations)

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.loading import load_translator
from t2t_repro.evaluation.scores import bleu
from t2t_repro.text.training import SubwordTraining
from tests.whole.conftest import STEPS
from tests.whole.runs import CYRILLIC, lines_of, translated

FILES = "source_subwords.model", "target_subwords.model"


@pytest.fixture(scope="module")
def translator(task_run):
    return load_translator(task_run.folder / "model")


def checkpoints(folder):
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("step-*.index"))


def test_a_second_run_goes_on_with_the_same_data(task_run):
    prepared, first, second = (task_run.outcomes[x].err for x in ("datagen", "begun", "trained"))
    assert "learning 290 subwords" in prepared
    assert "learning 310 subwords" in prepared
    assert "learning" not in first + second
    assert "going on after step 200" in second
    steps = [int(step) for step in re.findall(r"step (\d+)/", second)]
    # On a busy machine the first line comes before step 250.
    assert 200 < min(steps) <= 250 < max(steps) == STEPS


def test_the_task_is_learnt_and_the_scores_are_kept(task_run):
    folder = task_run.folder
    perplexity, of_bleu, of_chrf = task_run.outcomes["evaluate"].out.splitlines()
    own = bleu(lines_of(folder / "evaluated"), lines_of(folder / "test.target"))
    assert own.value > 95
    assert of_bleu == f"BLEU {own.value:.2f}  [{own.signature}]"
    assert of_chrf.startswith("chrF ")
    kept = json.loads((folder / "model" / "scores" / "test.json").read_text())
    assert kept["checkpoint"] == f"averaged/step-{STEPS}"
    assert perplexity == f"test perplexity per subword {kept['perplexity']:.3f}"
    assert kept["scores"][0]["value"] == own.value
    assert kept["search"].startswith("BeamSearch(beam_size=2,")


def test_systems_are_compared(task_run):
    baseline, system = json.loads(task_run.outcomes["compare"].out)
    assert (baseline["system"], system["system"]) == ("test.source", "test.target")
    assert [one["value"] for one in system["scores"]] == [pytest.approx(100)] * 2
    assert {"nrefs:3", "seed:7"} <= {*system["scores"][0]["signature"].split("|")}
    # Both are among the references.
    assert system["scores"][0]["p_value"] == 1


def test_lines_in_are_lines_out_from_a_file_and_from_standard_input(task_run):
    folder = task_run.folder
    assert len(lines_of(folder / "evaluated")) == len(lines_of(folder / "test.source"))
    assert task_run.outcomes["stdin"].out == f"\n{translated('ant bee cat', CYRILLIC)}\n\n"
    assert not list(folder.glob("*.partial"))


def test_n_best_lists_are_numbered_and_aligned(task_run, translator):
    lines = lines_of(task_run.folder / "short")
    found = translator.translate(lines, 2, lines)
    expected = [
        (number, one.score, one.text) for number, some in enumerate(found, 1) for one in some
    ]
    rows = [line.split("\t") for line in lines_of(task_run.folder / "best")]
    assert [(int(row[0]), row[2]) for row in rows] == [(one[0], one[2]) for one in expected]
    assert [float(row[1]) for row in rows] == pytest.approx([one[1] for one in expected], abs=1e-3)
    # A translation begins as it was told to.
    assert all(text.startswith(lines[number - 1].strip()) for number, _, text in expected)
    pairs = [(lines[number - 1], text) for number, _, text in expected]
    assert lines_of(task_run.folder / "links") == translator.align(
        *map(list, zip(*pairs, strict=True))
    )


def test_scores_are_log_probability_and_length(task_run, translator):
    sides = [lines_of(task_run.folder / f"test.{side}") for side in ("source", "target")]
    expected = translator.score(*sides)
    rows = [line.split("\t") for line in task_run.outcomes["score"].out.splitlines()]
    assert [int(row[1]) for row in rows] == [len(one.subwords) for one in expected]
    log_probabilities = [one.log_probability for one in expected]
    assert [float(row[0]) for row in rows] == pytest.approx(log_probabilities, abs=1e-4)
    short = lines_of(task_run.folder / "short")
    found = [json.loads(line) for line in task_run.outcomes["tokens"].out.splitlines()]
    for row, one in zip(found, translator.score(short, short), strict=True):
        assert row["subwords"] == one.subwords
        assert row["log_probabilities"] == pytest.approx(one.log_probabilities, abs=1e-4)


def test_attention_has_a_page_and_pictures(task_run, translator):
    names = sorted(path.name for path in (task_run.folder / "maps").iterdir())
    assert names == [
        "attention.html",
        *(f"{x}_layer_1.png" for x in ("cross", "decoder", "encoder")),
    ]
    page = (task_run.folder / "maps" / "attention.html").read_text(encoding="utf-8")
    (data,) = map(json.loads, re.findall(r'application/json">(.*?)</script>', page))
    ((best,),) = translator.translate(["ant bee"])
    assert data["target"] == best.text
    # Each side is named by its own subwords.
    _, _, cross = data["kinds"]
    for labels, sentence in ((cross["keys"], "ant bee"), (cross["queries"], best.text)):
        letters = "".join(label.removeprefix("##") for label in labels[:-1])
        assert letters.replace("\u2581", "") == sentence.replace(" ", "")


def test_a_model_directory_is_complete_in_itself(task_run):
    model = task_run.folder / "model"
    assert {path.name for path in model.iterdir()} == {
        *("averaged", "best", "checkpoints", "scores", "tensorboard", *FILES),
        *("config.gin", "operative_config.gin", "model.json", "epoch.json", "versions.json"),
    }
    assert f"TrainingSchedule.steps = {STEPS}" in (model / "config.gin").read_text()
    operative = (model / "operative_config.gin").read_text()
    assert "adam.beta_2 = 0.98" in operative
    assert "CrossEntropy.label_smoothing = 0.1" in operative
    assert json.loads((model / "versions.json").read_text())["tensorflow"] == tf.__version__


def test_each_vocabulary_is_learnt_from_its_side_alone(task_run, tmp_path):
    data = PreparedData(task_run.folder / "data" / "prepared")
    sides = zip((290, 310), FILES, data.text("train"), strict=True)
    for size, name, lines in sides:
        SubwordTraining(vocab_size=size).train(lines, tmp_path / name)
        for directory in (data.directory, task_run.folder / "model"):
            assert (directory / name).read_bytes() == (tmp_path / name).read_bytes()
    sizes = json.loads((task_run.folder / "model" / "model.json").read_text())
    assert (sizes["source_vocab_size"], sizes["vocab_size"]) == (290, 310)


def test_the_saved_model_answers_as_the_translator(task_run, translator):
    signatures = tf.saved_model.load(str(task_run.folder / "servable" / "1")).signatures
    lines = lines_of(task_run.folder / "test.source")[:4]
    found = [best for best, *_ in translator.translate(lines)]
    best = signatures["serving_default"](source=tf.constant(lines))
    assert [text.decode() for text in best["translation"].numpy()] == [one.text for one in found]
    np.testing.assert_allclose(best["score"], [one.score for one in found], atol=1e-5)


def test_checkpoints_are_kept_and_averaged(task_run):
    model = task_run.folder / "model"
    assert checkpoints(model / "checkpoints")[-2:] == [STEPS - 50, STEPS]
    assert checkpoints(model / "averaged") == [STEPS]
    assert checkpoints(model / "best") in ([200], [STEPS])
    assert (
        f"averaged 2 checkpoints, steps {STEPS - 50} to {STEPS}" in task_run.outcomes["average"].err
    )


def test_tensorboard_has_every_signal_once_a_step(task_run):
    scalars: dict[str, dict[int, float]] = {}
    texts = {}
    for path in sorted((task_run.folder / "model" / "tensorboard").iterdir()):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                content = tf.make_ndarray(value.tensor)
                if content.dtype.kind == "f":
                    steps = scalars.setdefault(value.tag, {})
                    assert event.step not in steps, value.tag
                    steps[event.step] = float(content)
                else:
                    texts[value.tag] = str(content)
    for name in ("loss", "nll", "perplexity", "gradient_norm", "real_tokens_per_second"):
        assert sorted(scalars[f"train/{name}"]) == list(range(50, STEPS + 1, 50))
    previewed, scored = [250], [200, STEPS]
    for name in ("nll", "perplexity"):
        assert sorted(scalars[f"dev/{name}"]) == sorted(previewed + scored)
    assert sorted(scalars["dev/bleu"]) == scored
    assert sorted(scalars["dev/bleu_of_3_sentences"]) == previewed
    for step, rate in scalars["train/learning_rate"].items():
        assert rate == pytest.approx(0.006 * min(step / 50, (50 / step) ** 0.5), rel=1e-5)
    assert scalars["train/loss"][STEPS] < 0.2 < 0.8 < scalars["train/loss"][50]
    assert "InverseSquareRoot.peak = 0.006" in texts["configuration"]
    assert lines_of(task_run.folder / "dev.source")[0] in texts["dev/translations"]


def test_a_finished_run_is_not_trained_on(task_run):
    log = task_run.outcomes["again"].err
    assert f"finished already, after step {STEPS}" in log
    assert not re.findall(r"step (\d+)/", log)
    # It says what is next, as the commands are.
    assert "python -m t2t_repro.evaluate --model_dir=model" in task_run.outcomes["trained"].err
