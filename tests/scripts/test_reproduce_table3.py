"""Table 3 in small: every row's settings, each run once, killed on the way and resumed."""

import os
import re
import shutil
import signal
import subprocess
import time

import gin
import pytest

from t2t_repro.analysis.table_3 import TABLE_3
from t2t_repro.config.gin_files import configure
from t2t_repro.experiment import TRAINING_ROOTS
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.training.train_loop import TrainingSchedule
from tests.processes import CHECKOUT, interruptible

# In place of the script's own, which makes an environment.
ENVIRONMENT = 'cd "$(dirname "${BASH_SOURCE[0]}")/.."\n'

# In place of the trainer, evaluate and report: what they were called with, and what they leave.
PYTHON = r"""#!/bin/bash
echo "$*" >> calls
for argument in "$@"; do
    case "$argument" in --model_dir=*) model_dir="${argument#--model_dir=}" ;; esac
done
case "$2" in
    t2t_repro.trainer)
        trap 'echo "asked to end" >> calls; kill $!; exit 143' TERM
        if [ -e slow ]; then touch "started.$$"; sleep 60 & wait $!; fi
        if [ -e "fails.$(basename "$(dirname "$model_dir")")" ]; then exit 2; fi
        ;;
    t2t_repro.evaluate) mkdir -p "$model_dir/scores"; touch "$model_dir/scores/dev.json" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the script and the gin files in it."""
    shutil.copytree(CHECKOUT / "gin", tmp_path / "gin")
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts" / "reproduce_table3.sh", tmp_path / "scripts")
    (tmp_path / "scripts" / "environment.sh").write_text(ENVIRONMENT)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    yield tmp_path
    gin.clear_config()


def start(checkout, *arguments, **environment):
    return subprocess.Popen(
        ["bash", "scripts/reproduce_table3.sh", *arguments],
        cwd=checkout,
        env=os.environ | {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
        start_new_session=True,
    )


def run(checkout, *arguments, **environment):
    """Runs the script: its status, what it printed, and its calls of verbs."""
    (checkout / "calls").unlink(missing_ok=True)
    process = start(checkout, *arguments, **environment)
    out, err = process.communicate(timeout=60)
    calls = checkout / "calls"
    return process.returncode, out + err, calls.read_text().splitlines() if calls.exists() else []


def trained(calls):
    return sorted(
        re.findall(r"--model_dir=runs/(\S+)/model", call)[0] for call in calls if "trainer" in call
    )


def test_every_row_is_trained_once_with_every_seed_then_all_are_reported(checkout):
    status, out, calls = run(checkout, "--scale", "--gin_param=More.of_it = 'a b'", JOBS="2")
    assert status == 0, out
    expected = [f"table_3_multi30k/{row.name}/seed_{n}" for row in TABLE_3 for n in (1, 2, 3)]
    assert trained(calls) == sorted(expected)
    (call,) = (call for call in calls if "trainer" in call and "a_1_head/seed_2" in call)
    assert call == (
        "-m t2t_repro.trainer --gin_file=runs/table_3_multi30k/gin/a_1_head.gin "
        "--model_dir=runs/table_3_multi30k/a_1_head/seed_2/model "
        "--data_dir=runs/table_3_multi30k/table_3_data --gin_param=train.seed = 2 "
        "--gin_param=More.of_it = 'a b'"
    )
    assert sum("--split=dev --checkpoint=latest" in call for call in calls) == len(expected)
    assert calls[-1] == (
        "-m t2t_repro.report --runs=runs/table_3_multi30k --output=runs/table_3_multi30k/report"
    )
    assert run(checkout, "--scale")[2] == calls[-1:]


def test_whole_there_is_one_run_a_row_and_its_own_gin_file(checkout):
    status, out, calls = run(checkout, ROWS="base_ende a_1_head")
    assert status == 0, out
    assert calls[0] == (
        "-m t2t_repro.trainer --gin_file=gin/base_ende.gin --model_dir=runs/base_ende/model "
        "--data_dir=runs/table_3_data"
    )
    assert "--gin_file=gin/ablations/a_1_head.gin --model_dir=runs/a_1_head/model" in calls[2]
    assert calls[-1] == "-m t2t_repro.report --runs=runs --output=runs/report"


def test_what_is_left_and_for_how_long(checkout):
    (checkout / "runs" / "table_3_multi30k").mkdir(parents=True)
    # Ten hours for base: twenty for two such rows, ten with two at a time.
    (checkout / "runs/table_3_multi30k/seconds").write_text("base_ende/seed_1 36000 10\n")
    _, out, _ = run(checkout, "--scale", ROWS="base_ende a_1_head", SEEDS="1", JOBS="2")
    assert "== runs/table_3_multi30k/base_ende/seed_1: 2 runs to do, about 10.0 hours" in out


def test_the_rest_of_a_run_that_was_killed_is_not_taken_for_its_time(checkout):
    runs = checkout / "runs" / "table_3_multi30k"
    (runs / "base_ende" / "seed_1" / "model").mkdir(parents=True)
    run(checkout, "--scale", ROWS="base_ende a_1_head", SEEDS="1", JOBS="1")
    timed = [line.split()[0] for line in (runs / "seconds").read_text().splitlines()]
    assert timed == ["runs/table_3_multi30k/a_1_head/seed_1"]


def test_a_run_that_fails_keeps_no_other_from_being_done(checkout):
    (checkout / "fails.seed_2").touch()
    arguments = {"ROWS": "base_ende a_1_head", "SEEDS": "1 2 3"}
    status, out, calls = run(checkout, "--scale", JOBS="2", **arguments)
    assert status == 1
    assert "table_3_multi30k/a_1_head/seed_2 failed: its file log says why" in out
    assert "error: 2 runs to do" in out
    assert len(trained(calls)) == 6
    assert "report" in calls[-1]
    (checkout / "fails.seed_2").unlink()
    status, out, calls = run(checkout, "--scale", JOBS="1", **arguments)
    assert status == 0, out
    assert [name[-6:] for name in trained(calls)] == ["seed_2", "seed_2"]


def test_runs_of_before_are_left_alone(checkout):
    def row(name, seed, perplexity):
        return f"A,{name},1,2,3,4,{seed},2500,{perplexity},,,,,\n"

    done = row("base_ende", "seed_1", "9.5") + row("a_1_head", "seed_2", "9.5")
    (checkout / "table_3.csv").write_text(f"group,...\n{done}{row('a_1_head', 'seed_1', '')}")
    rows = {"ROWS": "base_ende a_1_head", "SEEDS": "1 2", "EARLIER": "table_3.csv"}
    status, out, calls = run(checkout, "--scale", **rows)
    assert status == 0, out
    left = [f"table_3_multi30k/{name}" for name in ("a_1_head/seed_1", "base_ende/seed_2")]
    assert trained(calls) == left
    assert calls[-1].endswith(f"/report --earlier={checkout / 'table_3.csv'}")
    status, out, _ = run(checkout, "--scale", EARLIER="none.csv")
    assert (status, out) == (2, "error: EARLIER: there is no file none.csv.\n")


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("kill", "number"),
    [(os.kill, signal.SIGINT), (os.killpg, signal.SIGINT), (os.killpg, signal.SIGHUP)],
    ids=["signal", "Ctrl-C", "terminal closed"],
)
def test_interrupted_it_ends_its_runs_and_goes_on_from_there(checkout, jobs, kill, number):
    """What happens in a terminal is told to everything that runs there."""
    (checkout / "slow").touch()
    process = start(checkout, "--scale", ROWS="base_ende a_1_head big_ende", JOBS=str(jobs))
    until = time.monotonic() + 30
    while len(list(checkout.glob("started.*"))) < jobs and time.monotonic() < until:
        time.sleep(0.05)
    kill(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out
    assert "interrupted: the same command goes on from here" in err
    calls = (checkout / "calls").read_text().splitlines()
    assert calls.count("asked to end") == len(trained(calls)) == jobs
    (checkout / "slow").unlink()
    status, out, calls = run(checkout, "--scale", ROWS="base_ende a_1_head big_ende")
    assert (status, len(trained(calls))) == (0, 9), out


def test_a_second_call_at_the_same_time_is_refused(checkout):
    (checkout / "slow").touch()
    process = start(checkout, "--scale", ROWS="base_ende", SEEDS="1", JOBS="1")
    until = time.monotonic() + 30
    while not list(checkout.glob("started.*")) and time.monotonic() < until:
        time.sleep(0.05)
    status, out, calls = run(checkout, "--scale", ROWS="base_ende", SEEDS="1")
    assert (status, calls) == (2, [])
    assert out.startswith(f"error: process {process.pid} is at work in runs/table_3_multi30k: ")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    (checkout / "slow").unlink()
    assert run(checkout, "--scale", ROWS="base_ende", SEEDS="1")[0] == 0


def test_of_several_calls_at_the_same_time_one_works(checkout):
    """Also where one was killed before, and is not at work any more."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    runs = checkout / "runs" / "table_3_multi30k"
    runs.mkdir(parents=True)
    (runs / "at_work").symlink_to(str(dead.pid))
    (checkout / "slow").touch()
    settings = {"ROWS": "base_ende", "SEEDS": "1", "JOBS": "1"}
    calls = [start(checkout, "--scale", **settings) for _ in range(4)]
    until = time.monotonic() + 30
    while sum(call.poll() is None for call in calls) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    (at_work,) = (call for call in calls if call.poll() is None)
    for call in calls:
        if call is not at_work:
            assert call.communicate()[1].startswith(f"error: process {at_work.pid} is at work in ")
            assert call.returncode == 2
    while not list(checkout.glob("started.*")) and time.monotonic() < until:
        time.sleep(0.05)
    at_work.send_signal(signal.SIGINT)
    assert at_work.wait(30) == 130
    assert sorted(path.name for path in runs.glob("at_work*")) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"JOBS": "0"}, "JOBS=0: expected a number from 1 on."),
        ({"JOBS": "two"}, "JOBS=two: expected a number from 1 on."),
        ({"SEEDS": "1,2"}, "SEEDS=1,2: expected numbers with spaces between them."),
        ({"ROWS": "base"}, "ROWS: there is no row 'base'; there are base_ende a_1_head"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_nothing_is_made(checkout, settings, said):
    status, out, calls = run(checkout, "--scale", **settings)
    assert (status, calls) == (2, [])
    assert out.startswith(f"error: {said}")
    assert out.count("\n") == 1
    assert not (checkout / "runs").exists()


def test_the_rows_in_small_differ_from_base_as_the_paper_s_do(checkout, monkeypatch):
    run(checkout, "--scale", SEEDS="1")
    monkeypatch.chdir(checkout)

    def settings(gin_file):
        configure(gin_file, [], TRAINING_ROOTS)
        config = LayerConfig()
        names = ("Transformer.positional_encoding", "CrossEntropy.label_smoothing")
        bound = gin.config_str()
        others = [re.findall(rf"^{name} = (.*)$", bound, re.MULTILINE) for name in names]
        sizes = (config.d_model, config.d_ff, config.key_depth, config.value_depth)
        layers = gin.query_parameter("Transformer.num_layers")
        return sizes, layers, config.num_heads, config.dropout, others, TrainingSchedule().steps

    small = {row.name: settings(f"runs/table_3_multi30k/gin/{row.name}.gin") for row in TABLE_3}
    base = small["base_ende"]
    for row in TABLE_3:
        folder = "gin" if row.group in ("base", "big") else "gin/ablations"
        sizes, layers, *others, steps = settings(f"{folder}/{row.name}.gin")
        assert small[row.name][0] == tuple(size // 4 for size in sizes), row.name
        assert small[row.name][1] == layers // 2
        assert list(small[row.name][2:5]) == others
        assert small[row.name][5] / base[5] == steps / 100_000
    # Heads of base are no narrower than 8.
    assert base[0][2] >= 8
