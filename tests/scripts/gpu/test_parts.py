"""What a GPU day does: scripts that are there, flags and bindings that they take, all in order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import parts
import table_3
from parts import JAX, SIZES, TENSORFLOW
from t2t_repro import experiment
from tests.processes import CHECKOUT

KIT, RUNS = Path("/kit"), Path("/runs")
DAYS = {name: list(parts.all_parts(sizes, KIT, RUNS, "python")) for name, sizes in SIZES.items()}
COMMANDS = [command for day in DAYS.values() for part in day for command in part.commands]


def test_the_day_is_in_the_order_of_safety():
    for day in DAYS.values():
        pythons = [part.python for part in day]
        assert pythons == sorted(pythons)  # JAX, which is there, before TensorFlow
        assert pythons.count(JAX) >= 3
        trainings = [any("t2t_repro.trainer" in c for c in part.commands) for part in day]
        assert trainings == sorted(trainings)
    assert len({part.name for part in DAYS["full"]}) == len(DAYS["full"])


def test_the_measurements_fit_the_half_hour_that_one_may_have():
    names = [part.name for part in DAYS["full"]]
    measured = DAYS["full"][: names.index("multi30k, seed 1")]
    # Limits are for what goes wrong; half of each is what a part is planned for.
    assert sum(part.limit for part in measured) / 2 <= 30 * 60
    assert max(part.limit for part in DAYS["full"]) < 600


def test_three_batch_sizes_of_both_models_beside_pytorch():
    timed = [c for c in COMMANDS if any(word.startswith("--time=/kit/programs/gpu") for word in c)]
    both = [c for c in timed if not any(word.startswith("--peers") for word in c)]
    assert len(both) == 6
    assert {word for c in both for word in c if word.startswith("--time")} >= {
        "--time=/kit/programs/gpu_base_bfloat16_624x40",
        "--time=/kit/programs/gpu_big_bfloat16_72x40",
    }


@pytest.mark.parametrize("script", sorted({c[0] for c in COMMANDS if c[0] != "-m"}))
def test_scripts_take_the_flags_that_they_are_given(script):
    path = CHECKOUT / script
    assert path.is_file()
    text = path.read_text() + (CHECKOUT / "benchmarks" / "alternation.py").read_text()
    for command in COMMANDS:
        if command[0] == script:
            own = command[: command.index("--")] if "--" in command else command
            for word in own[1:]:
                if word.startswith("--"):
                    assert f'"{word.split("=")[0]}"' in text, word


def test_bindings_are_taken(monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    seen = set()
    for command in COMMANDS:
        files = [word.split("=", 1)[1] for word in command if word.startswith("--gin_file")]
        bindings = tuple(w.split("=", 1)[1] for w in command if w.startswith("--gin_param"))
        if files and (files[0], bindings) not in seen:
            seen.add((files[0], bindings))
            experiment.configure_experiment(files[0], list(bindings))
    assert len(seen) > 60


def test_table_3_has_the_rows_of_the_paper_and_ten_times_the_parameters():
    script = (CHECKOUT / "scripts" / "reproduce_table3.sh").read_text()
    (listed,) = re.findall(r'all_rows="(.*?)"', script, re.DOTALL)
    assert list(table_3.ROWS) == listed.split()
    d_model, d_ff, layers, vocabulary = 320, 1280, 6, 4000
    assert (
        f"Transformer.num_layers = {layers}",
        f"d_model = {d_model}",
        f"LayerConfig.d_ff = {d_ff}",
    ) == table_3.BASE
    weights = layers * (12 * d_model**2 + 4 * d_model * d_ff) + vocabulary * d_model
    assert weights / 1_895_936 == pytest.approx(10, rel=0.05)


def test_help_needs_no_tensorflow():
    for name in ("run", "prepare", "put_together"):
        path = CHECKOUT / "scripts" / "gpu" / f"{name}.py"
        done = subprocess.run(
            [sys.executable, "-S", path, "--help"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_tensorflow_is_used_for_what_needs_it():
    for part in DAYS["tiny"]:
        is_jax_s = all(command[0] == "benchmarks/exported_in_jax.py" for command in part.commands)
        assert (part.python == JAX) == is_jax_s
        assert part.python in (JAX, TENSORFLOW)
