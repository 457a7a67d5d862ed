"""A restarted run loads the programs that XLA compiled before, and no others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_repro.training.xla_cache import keep_programs

CHECKOUT = Path(__file__).parents[2]
# A run on two devices, of two shapes and an update. What a restart does otherwise (it reads a
# checkpoint, has its data already) lies between the step and its compilation.
RUN = """
import sys
from pathlib import Path
from t2t_repro.training.xla_cache import keep_programs

keep_programs(Path(sys.argv[1]))
import tests.conftest
import tensorflow as tf
from t2t_repro.data.slice_shapes import SliceShape
from tests.training.tiny import tiny_step

step = tiny_step(replicas=2, jit_compile=True)
for _ in range(int(sys.argv[2])):
    tf.function(lambda x: x + 1)(1)
shapes = [SliceShape(2, 3, 4, 7, 9), SliceShape(1, 5, 4, 6, 5)]
step.compile(shapes)
print("REHEARSED", file=sys.stderr)
ids = [tf.ones([2, 2, length], tf.int32) for length in shapes[0].lengths]
step(0, *ids, shapes[0].slots)
"""
READY = "device_compilation_profiler"
"""TensorFlow's file that tells the log of each program that was compiled, or read from disk."""


def programs(cache):
    """When each program on disk was written."""
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.pb")}


def run(model_dir, cache, other_functions):
    """The programs on disk, and how many were made ready in the rehearsal and in the update."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": str(cache)}
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": f"{READY}=1"}
    environment.pop("TF_XLA_FLAGS", None)
    arguments = [sys.executable, "-c", RUN, str(model_dir), str(other_functions)]
    found = subprocess.run(
        arguments, env=environment, check=True, capture_output=True, text=True, timeout=500
    )
    parts = found.stderr.split("REHEARSED")
    return programs(cache), [part.count(f"{READY}.cc") for part in parts]


def test_a_rehearsal_compiles_for_every_device_and_a_restart_nothing(tmp_path):
    model_dir, cache = tmp_path / "model", tmp_path / 'a [1] \\ "\\" --x=ü'
    first, ready = run(model_dir, cache, other_functions=0)
    # Two shapes, each for two devices, which have one program on disk.
    assert (len(first), ready) == (2, [4, 0])
    # XLA writes whatever it compiles: nothing was written.
    assert run(model_dir, cache, other_functions=3) == (first, [4, 0])
    assert not model_dir.exists()


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
