"""A restarted run loads the programs that XLA compiled before, and no others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.xla_cache import keep_programs

CHECKOUT = Path(__file__).parents[2]
# Two devices, two shapes; the second start makes one update more.
EXPERIMENT = """
prepare.corpus = @GeneratedCorpus()
GeneratedCorpus.train_size = 300
GeneratedCorpus.dev_size = 4
GeneratedCorpus.test_size = 4
SubwordTraining.vocab_size = 400
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.d_ff = 8
LayerConfig.num_heads = 2
adam.learning_rate = 0.001
choose_strategy.cpu_replicas = 2
use_xla.jit_compile = True
Batches.tokens_per_batch = 2000
Batches.max_shapes = 2
DevEvaluation.sentences = 1
BeamSearch.beam_size = 1
"""
READY = "device_compilation_profiler"
"""TensorFlow's file that tells the log of each program that was compiled, or read from disk."""
COMPILED = "compiled 2 shapes with XLA"
"""What the trainer says before the first update."""


def programs(cache):
    """When each program on disk was written."""
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.pb")}


def run(folder, cache, steps):
    """The programs on disk, and how many were made ready before the first update, and in it."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": str(cache)}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": f"{READY}=1"}
    environment.pop("TF_XLA_FLAGS", None)
    arguments = [
        "--gin_file=mine.gin",
        "--model_dir=model",
        f"--gin_param=TrainingSchedule.steps = {steps}",
    ]
    found = subprocess.run(
        [sys.executable, "-m", "t2t_repro.trainer", *arguments],
        cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    parts = found.stderr.split(COMPILED)
    return programs(cache), [part.count(f"{READY}.cc") for part in parts]


def test_a_start_compiles_for_every_device_and_a_restart_nothing(tmp_path):
    (tmp_path / "mine.gin").write_text(EXPERIMENT)
    cache = tmp_path / 'a [1] \\ "\\" --x=ü'
    first, ready = run(tmp_path, cache, steps=1)
    # Two shapes, each for two devices, which have one program on disk.
    assert (len(first), ready) == (2, [4, 0])
    # XLA writes whatever it compiles: nothing was written.
    assert run(tmp_path, cache, steps=2) == (first, [4, 0])
    assert not list((tmp_path / "model").rglob("*.pb"))


@pytest.fixture
def flags(monkeypatch, tmp_path):
    """TF_XLA_FLAGS as `keep_programs` leaves it; what it was before comes back."""
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def after(model_dir, directory, before=""):
        monkeypatch.setenv("TF_XLA_FLAGS", before)
        keep_programs(model_dir, directory)
        return os.environ["TF_XLA_FLAGS"]

    return after


def test_the_directory_can_be_chosen_or_none(tmp_path, flags):
    assert flags(tmp_path, "") == ""
    assert f'directory="{tmp_path}/cache/t2t_repro/xla/' in flags(tmp_path, None)
    assert f'directory="{tmp_path}/other/tensorflow-' in flags(tmp_path, f"{tmp_path}/other")


def test_other_flags_of_the_user_stay(tmp_path, flags):
    assert flags(tmp_path, None, "--tf_xla_auto_jit=1").startswith("--tf_xla_auto_jit=1 --tf_xla_p")
    own = "--tf_xla_persistent_cache_directory=mine"
    assert flags(tmp_path, None, own) == own


def test_programs_of_other_compiler_flags_lie_elsewhere(tmp_path, flags, monkeypatch):
    ours = flags(tmp_path, None)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=SSE4_2")
    assert flags(tmp_path, None) != ours


def test_programs_of_a_model_directory_are_not_looked_for(tmp_path, flags):
    """They are machine code, and may be a stranger's."""
    model_dir = tmp_path / "model"
    flags(model_dir, f"{model_dir}/xla_cache")
    assert str(model_dir) in os.environ["TF_XLA_FLAGS"]
    assert str(model_dir) not in flags(model_dir, None)
    assert flags(model_dir, None) != flags(tmp_path / "other", None)


def test_without_a_place_to_write_programs_are_not_kept(tmp_path, flags, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert flags(tmp_path / "model", None) == ""


def test_a_place_that_was_named_has_to_be_one(tmp_path, flags):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^--xla_cache_dir=.*/x cannot be written to \(.*\): "):
        flags(tmp_path / "model", f"{tmp_path}/file/x")


def test_a_user_without_a_home_has_no_programs_kept(tmp_path, flags, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")

    def no_home(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    assert flags(tmp_path / "model", None) == ""
