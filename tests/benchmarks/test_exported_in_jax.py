"""The exported step: sentences as the program's shape has them, and errors as they are told."""

import json
import os
import subprocess

import numpy as np
import pytest

from environments import DEFAULT_ENV_DIR
from exported_in_jax import Case, error, relative_errors
from exported_step import shape_of
from t2t_repro.data.batch_shapes import slots_needed
from tests.processes import CHECKOUT
from work import SIZES

JAX = DEFAULT_ENV_DIR / "jax" / "bin" / "python"


def test_sentences_are_of_the_program_s_shape_and_fit_its_slots(tmp_path):
    shape = shape_of(512, 16)
    described = {"size": SIZES["smoke"]._asdict(), "dtype": "float32", "shape": shape._asdict()}
    (tmp_path / "description.json").write_text(json.dumps(described))
    case = Case.read(tmp_path)
    assert case.size == SIZES["smoke"]
    assert case.batch.source.shape == case.batch.target.shape == (32, 16)
    needed = slots_needed(case.batch.source[None], case.batch.target[None])
    assert (needed <= shape.capacity).all()
    again = Case.read(tmp_path)
    np.testing.assert_array_equal(case.batch.target, again.batch.target)


def test_an_error_is_relative_to_what_is_expected():
    expected = np.array([3.0, 4.0])
    assert error(expected, expected) == 0.0
    assert error(expected + np.array([0.0, 0.05]), expected) == pytest.approx(0.01)


def test_of_weights_the_change_is_compared_but_for_their_last_bit():
    before, after, other = (np.array([x], np.float32) for x in (1000.0, 1000.1, 1000.2))
    of_weight, of_moment = relative_errors([other, other], [after, after], [before])
    assert of_weight == pytest.approx(1.0, rel=1e-2)
    assert of_moment == pytest.approx(1e-4, rel=1e-2)
    next_to_it = np.nextafter(after, other)
    assert relative_errors([next_to_it], [after], [before]) == [0.0]
    assert relative_errors([np.nextafter(next_to_it, other)], [after], [before])[0] > 1e-4


@pytest.mark.skipif(not JAX.is_file(), reason="python benchmarks/environments.py --peers=jax")
@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_what_is_wrong_is_seen(tmp_path, activation):
    """Of programs that TensorFlow has written: right as they are, wrong with a changed weight."""
    from exported_check import main

    with pytest.MonkeyPatch.context() as patch:
        command = ["exported_check.py", f"--output={tmp_path}", f"--activation={activation}"]
        patch.setattr("sys.argv", command)
        main()
    assert check(tmp_path) == (0, [True, True])
    with np.load(tmp_path / "check.npz") as kept:
        arrays = [kept[f"arr_{i}"] for i in range(len(kept.files))]
    arrays[0] = arrays[0] * 1.001
    np.savez(tmp_path / "check.npz", *arrays)
    assert check(tmp_path) == (1, [False, False])


def check(folder):
    script = CHECKOUT / "benchmarks" / "exported_in_jax.py"
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(CHECKOUT)}
    command = [str(JAX), str(script), f"--check={folder}", f"--output={results}"]
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    rows = map(json.loads, results.read_text().splitlines())
    return done.returncode, [row["value"] < 1e-5 for row in rows]
