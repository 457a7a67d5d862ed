"""The benchmarks that need nothing from outside, at their smallest; and the tables of results."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import corpus_bleu

from tests.processes import CHECKOUT
from toolkits.over_seeds import report
from work import SIZES, Batch, save_training, training_file

BENCHMARKS = CHECKOUT / "benchmarks"


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_training_is_measured(tmp_path: Path):
    ids = np.random.default_rng(1).integers(3, SIZES["smoke"].vocab_size, (6, 9)).astype(np.int32)
    save_training(tmp_path / training_file("smoke"), [Batch(ids, ids[:, 2:])] * 4)
    output = tmp_path / "results.jsonl"
    flags = ["--sizes=smoke", "--dtypes=float32", "--peers=ours", "--rounds=1", "--batches=2"]
    run("training.py", *flags, f"--work={tmp_path}", f"--output={output}", f"--log_dir={tmp_path}")
    (row,) = map(json.loads, output.read_text().splitlines())
    assert row["peer"] == "ours"
    assert row["value"] > 0


@pytest.mark.slow
def test_preparation_is_measured():
    assert json.loads(run("preparation.py", "--pairs=20000", "--length_share=0.3"))["peak_gb"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(path.name for path in BENCHMARKS.glob("*.py")))
def test_every_script_says_what_it_does(script):
    if ".parse_args(" in (BENCHMARKS / script).read_text(encoding="utf-8"):
        assert "usage:" in run(script, "--help")


def test_toolkits_are_compared_over_the_seeds_that_both_have(tmp_path: Path):
    references = [f"this is line {number} of the text" for number in range(40)]
    (tmp_path / "test.de").write_text("\n".join(references) + "\n")
    wrong = {("good", 1): 4, ("good", 2): 8, ("poor", 1): 20, ("poor", 2): 24, ("poor", 3): 40}
    lines = {}
    for (toolkit, seed), count in wrong.items():
        lines[toolkit, seed] = ["another line"] * count + references[count:]
        folder = tmp_path / toolkit / f"seed_{seed}"
        folder.mkdir(parents=True)
        (folder / "test.de").write_text("\n".join(lines[toolkit, seed]) + "\n")
        (folder / "facts.json").write_text(json.dumps({"cpu_hours": seed}))
    found = "\n".join(report(tmp_path, "test", ["good", "poor", "missing"]))
    one, two = (corpus_bleu(lines["good", seed], [references]).score for seed in (1, 2))
    # The half width for n = 2: t / sqrt(2) times the deviation, which is the difference / sqrt(2).
    cell = f"{(one + two) / 2:.2f} ± {12.7062 * abs(one - two) / 2:.2f}"
    assert f"| good | 2 | {cell} |" in found
    both = [lines[toolkit, 1] + lines[toolkit, 2] for toolkit in ("good", "poor")]
    better, worse = (corpus_bleu(each, [references * 2]).score for each in both)
    assert f"| good − poor | {better - worse:+.2f} (p 0.0" in found
