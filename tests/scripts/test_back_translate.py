"""Back-translation from parallel and monolingual text to a model, killed on the way and resumed."""

import os
import shutil
import signal
import subprocess
import sys
import time

import gin
import pytest

from t2t_repro import experiment
from tests.processes import CHECKOUT

GIN = """
prepare.max_length = 16
Cleaning.drop_held_out = False
SubwordTraining.vocab_size = 300
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.d_ff = 8
LayerConfig.num_heads = 2
TrainStep.micro_batches = 1
choose_strategy.cpu_replicas = 1
use_xla.jit_compile = False
Batches.tokens_per_batch = 256
Batches.max_shapes = 1
adam.learning_rate = 0.001
Translator.max_extra_length = 2
TrainingSchedule.steps = 3
Checkpoints.every_steps = 2
"""

# In place of the script's own, which makes an environment; the place for `python` is the PATH.
ENVIRONMENT = 'cd "$(dirname "${BASH_SOURCE[0]}")/.."\n'


@pytest.fixture
def folder(tmp_path):
    """A checkout with the script in it, and text beside it, in a folder with a space."""
    scripts = tmp_path / "checkout" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts" / "back_translate.sh", scripts)
    (scripts / "environment.sh").write_text(ENVIRONMENT)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    text = tmp_path / "my text"
    text.mkdir()
    words = ["ant", "bee", "cat", "dog", "elk"]
    lines = [f"{a} {b} {c}" for a in words for b in words for c in words]
    for name, part in (("train", lines[:60]), ("dev", lines[60:64]), ("mono", lines[64:])):
        for side in ("en", "de"):
            (text / f"{name}.{side}").write_text("".join(f"{line} {side}\n" for line in part))
    (text / "tiny.gin").write_text(GIN)
    return text


def script(folder, *more):
    """Starts the script in a folder."""
    arguments = [
        *("--gin_file=tiny.gin", "--train=train.en,train.de", "--dev=dev.en,dev.de"),
        *("--monolingual=mono.de", "--runs=runs", *more),
    ]
    return subprocess.Popen(
        ["bash", str(folder.parent / "checkout" / "scripts" / "back_translate.sh"), *arguments],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": str(CHECKOUT),
            "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process, status=0):
    out, err = process.communicate(timeout=500)
    assert process.returncode == status, out + err
    return out, err


def test_from_text_to_a_model_killed_on_the_way(folder):
    killed = script(folder, "--method=noise", "--weights=2:1")
    while not (folder / "runs" / "back.txt").exists():
        assert killed.poll() is None, finish(killed)
        time.sleep(0.1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    back = (folder / "runs" / "back.txt").read_bytes()
    assert back.count(b"\n") == (folder / "mono.de").read_bytes().count(b"\n")

    _, err = finish(script(folder, "--method=beam"), status=2)
    assert "runs was begun with other arguments, see " in err
    assert "Traceback" not in err

    out, _ = finish(script(folder, "--method=noise", "--weights=2:1"))
    assert "== evaluating on the dev set" in out
    assert "BLEU" in out
    assert (folder / "runs" / "back.txt").read_bytes() == back
    runs = folder / "runs"
    assert "en\n" in (runs / "reverse" / "data" / "prepared" / "dev.target.txt").read_text()
    trained = (runs / "forward" / "model" / "config.gin").read_text()
    for part in ("<BT>", "NoisedSource", "'back': 1", "'real': 2", "<BLANK>"):
        assert part in trained
    # Every pair but what is noised alike.
    prepared = (runs / "forward" / "data" / "prepared" / "train.source.txt").read_text()
    assert prepared.count("<BT> ") > 30
    assert "<BLANK>" in prepared


# Stands for the verbs: says what was called, and makes what the script looks for.
VERBS = """#!/usr/bin/env bash
echo "$@" >> calls
for argument in "$@"; do
    case "$argument" in --output=*) touch "${argument#*=}" ;; esac
done
"""


@pytest.mark.parametrize("method", ["beam", "sampling", "noise"])
@pytest.mark.parametrize("is_given", [False, True])
def test_what_is_called_with_what(folder, method, is_given):
    (folder.parent / "bin" / "python").write_text(VERBS)
    given = []
    if is_given:
        for name in ("back", "forth"):
            (folder / name).mkdir()
            (folder / name / "model.json").touch()
        given = ["--reverse_model=back", "--init_from=forth", "--tag=", "--test=dev.en,dev.de"]
    finish(script(folder, f"--method={method}", *given))
    calls = (folder.parent / "checkout" / "calls").read_text().splitlines()
    verbs = [call.split()[1].removeprefix("t2t_repro.") for call in calls]
    assert verbs == [*([] if is_given else ["trainer"]), "translate", "trainer", "evaluate"]
    reverse = folder / ("back" if is_given else "runs/reverse/model")
    assert f"--model_dir={reverse} " in calls[-3]
    assert ("@Sampling()" in calls[-3]) == (method == "sampling")
    assert calls[-1].endswith("test" if is_given else "dev")
    # All that is bound is read.
    experiment.configure_experiment(folder / "runs" / "forward.gin", [])
    bound = {
        name: gin.query_parameter(name)
        for name in ("Mixture.tags", "GivenSubwords.symbols", "SubwordTraining.symbols")
        if name in gin.config_str()
    }
    of_filler = "GivenSubwords.symbols" if is_given else "SubwordTraining.symbols"
    expected = {} if is_given else {"Mixture.tags": {"back": "<BT>"}}
    assert bound == expected | ({of_filler: ["<BLANK>"]} if method == "noise" else {})
    assert ("train.init_from" in gin.config_str()) == is_given
    if not is_given:
        experiment.configure_experiment(folder / "runs" / "reverse.gin", [])
        train = gin.query_parameter("TextFilesCorpus.train")
        assert train == (str(folder / "train.de"), str(folder / "train.en"))


BAD = {
    "--train=train.en": "--train=train.en: expected two files, such as --train=train.en,train.de",
    "--dev=dev.en,no.de": "--dev: no file ",
    "--method=magic": "--method=magic: expected beam, sampling or noise",
    "--weights=3": "--weights=3: expected real:back, such as 3:1",
    "--reverse_model=.": " is no model directory",
    "--monolingual=": "--monolingual is missing: see --help",
    "--tag='": "has a quote or a backslash in it",
    "mono.de": "received the argument 'mono.de', expected flags",
}


@pytest.mark.parametrize("argument", BAD)
def test_a_bad_argument_is_one_line(folder, argument):
    out, err = finish(script(folder, argument), status=2)
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert BAD[argument] in err
    assert not (folder / "runs").exists()


def test_a_folder_with_a_quote_in_its_name_is_one_line(folder):
    quoted = folder.rename(folder.with_name("it's mine"))
    out, err = finish(script(quoted), status=2)
    assert (out, err.count("\n")) == ("", 1)
    assert "it's mine, has a quote or a backslash in it" in err
    assert not (quoted / "runs").exists()
