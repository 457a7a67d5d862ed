"""The script that makes all figures on quality: what it takes, what it calls, what it draws."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.processes import CHECKOUT
from tests.scripts.test_draw_curves import PNG, write_run

pytest.importorskip("matplotlib")
SCRIPT = CHECKOUT / "scripts" / "evidence.sh"
PARTS = ("multi30k", "fairseq", "news", "table_3", "parsing", "curves")

# In place of the script's own, which makes an environment; `python` is a file beside it.
ENVIRONMENT = 'PATH="$PWD/bin:$PATH"\n'


def run(script, *arguments, **settings):
    return subprocess.run(["bash", script, *arguments], capture_output=True, text=True, **settings)


def test_without_a_name_it_lists_the_parts_that_it_has():
    listed = run(SCRIPT)
    assert listed.returncode == 0
    assert re.findall(r"^(\w+) +\d", listed.stdout, re.MULTILINE) == [*PARTS, "all"]
    hours = [int(number) for number in re.findall(r"^\w+ +(\d+)", listed.stdout, re.MULTILINE)]
    assert sum(hours[:-1]) == hours[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "there is no part 'nope'; bash scripts/evidence.sh says what there is."),
        (["news", "--tfds"], "'--tfds' is none of --multi30k=DIR, --tfds=DIR and --craft=DIR."),
        (["parsing", "--craft=not/there"], "--craft: there is no folder {}/not/there."),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path, arguments, said):
    done = run(SCRIPT, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"error: {said.format(tmp_path)}\n"


def test_a_run_beside_the_seeds_is_said_before_any_is_trained(tmp_path):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "runs" / "multi30k_tiny" / "model").mkdir(parents=True)
    for part in ("multi30k", "all"):
        done = run(script, part)
        assert done.returncode == 2
        assert done.stderr.startswith("error: runs/multi30k_tiny/model is a run by itself, beside")


def test_a_folder_that_gin_cannot_have_is_one_line(tmp_path):
    (tmp_path / "it's").mkdir()
    done = run(SCRIPT, "parsing", "--craft=it's", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --craft: {tmp_path}/it's has a quote or a backslash")
    assert done.stderr.count("\n") == 1


def test_what_it_calls_is_there_and_knows_the_flags():
    text = SCRIPT.read_text().replace("\\\n", " ")
    for path in re.findall(r"\b(?:scripts|benchmarks)/\w+\.(?:sh|py)", text):
        assert (CHECKOUT / path).is_file()
    commands = re.findall(r"python (benchmarks/\w+\.py)(.*)", text)
    assert len(commands) == 2
    for path, rest in commands:
        known = subprocess.run(
            [sys.executable, CHECKOUT / path, "--help"], capture_output=True, text=True, check=True
        ).stdout
        for flag in re.findall(r"(?<![-\w])--\w+", rest):
            assert re.search(rf"{flag}\b", known), (path, flag)


def write_scripts(checkout, python):
    """The scripts in a checkout, with what is called in place of Python; their folder."""
    scripts = checkout / "scripts"
    scripts.mkdir()
    for name in ("evidence.sh", "draw_curves.py", "curve_files.py"):
        shutil.copy(CHECKOUT / "scripts" / name, scripts)
    (scripts / "environment.sh").write_text(ENVIRONMENT)
    (checkout / "bin").mkdir()
    (checkout / "bin" / "python").write_text(f"#!/bin/sh\n{python}\n")
    (checkout / "bin" / "python").chmod(0o755)
    return scripts


def test_a_picture_that_cannot_be_drawn_keeps_no_other_from_it(tmp_path):
    fails = 'echo "$2" >> calls; case "$2" in *multi30k.png) exit 2 ;; esac'
    scripts = write_scripts(tmp_path, fails)
    for run_ in ("multi30k_tiny/seed_1", "table_3_multi30k/gin", "parsing_craft/model"):
        (tmp_path / "runs" / run_).mkdir(parents=True)
    assert run(scripts / "evidence.sh", "curves").returncode == 2
    drawn = re.findall(r"curves/(\w+)\.png", (tmp_path / "calls").read_text())
    assert drawn == ["multi30k", "parsing_craft"]


def test_the_curves_are_drawn_of_what_there_is(tmp_path):
    scripts = write_scripts(tmp_path, f'PYTHONPATH="{CHECKOUT}" exec "{sys.executable}" "$@"')
    tags = ("train/nll", "dev/nll", "dev/tokenised_lower_cased_bleu")
    for seed in (1, 2):
        model = tmp_path / "runs" / "multi30k_tiny" / f"seed_{seed}" / "model"
        (model / "tensorboard").mkdir(parents=True)
        write_run(model, [(n, 1000.0 + n, tag, 1 / n) for n in (1, 2, 3) for tag in tags])
    parser = tmp_path / "runs" / "parsing_craft" / "model"
    (parser / "tensorboard").mkdir(parents=True)
    of_parser = ("train/nll", "dev/strict_bracket_f1", "train/learning_rate")
    write_run(parser, [(n, 1000.0 + n, tag, 1 / n) for n in (1, 2, 3) for tag in of_parser])
    opennmt = tmp_path / "runs" / "news" / "opennmt_tf" / "seed_1"
    opennmt.mkdir(parents=True)
    point = {"run": "seed_1", "tag": "dev/nll", "step": 300, "hours": 0.1, "value": 5.5}
    (opennmt / "curves.jsonl").write_text(json.dumps(point))
    done = run(scripts / "evidence.sh", "curves")
    assert done.returncode == 0, done.stderr
    drawn = sorted((tmp_path / "docs" / "curves").iterdir())
    assert [path.name for path in drawn] == ["multi30k.png", "news.png", "parsing_craft.png"]
    for path in drawn:
        assert path.read_bytes().startswith(PNG)
