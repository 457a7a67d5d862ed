"""What can be asked for, and what measured peers become in the results."""

import argparse
import json
import sys

import pytest

import decoding
import decoding_profile
import exported_step
import gpu_training
import make_work
import training
from alternation import MATMUL, Measurement, add_arguments, running_worker, write_results
from work import SHARED_SIZES

ROUND = {"amount": 8.0, "seconds": 2.0, "cpu_seconds": 2.0, "peak_mib": 1, "peak_device_mib": 0}


def test_a_share_is_that_of_the_matrix_products(tmp_path):
    measured = [Measurement("ours", {}, [ROUND]), Measurement(MATMUL, {}, [ROUND])]
    write_results(tmp_path / "results", measured, operations=0.5, labels={"case": "c"})
    (row,) = map(json.loads, (tmp_path / "results").read_text().splitlines())
    assert (row["peer"], row["case"], row["value"]) == ("ours", "c", 4.0)
    assert row["share_of_matmul"] == 0.5


def test_a_worker_that_dies_between_its_rounds_costs_no_other_its_figures(tmp_path):
    """It is told of a round, and never reads that: at its end it must not be told again."""
    command = [sys.executable, "-c", "print('{}', flush=True)"]
    with running_worker(command, tmp_path / "log") as worker:
        assert worker.answer() == {}
        worker._process.wait()
        with pytest.raises(BrokenPipeError):
            worker.do_round()


@pytest.mark.parametrize("peers", [["ours", "theirs"], []])
def test_no_peer_stands_for_matrix_products_that_could_not_be_measured(tmp_path, peers):
    measured = [Measurement(peer, {}, [ROUND]) for peer in peers]
    with pytest.raises(SystemExit, match="error: the rate of matrix products could not be"):
        write_results(tmp_path / "results", measured, 0.5, {})
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "script", [training, decoding, gpu_training, exported_step, decoding_profile]
)
def test_what_it_has_no_work_for_is_said_at_once(script, monkeypatch, capsys):
    for wrong in ("--sizes=base,nope", "--dtypes=float16"):
        monkeypatch.setattr("sys.argv", ["script.py", wrong])
        with pytest.raises(SystemExit, match="2"):
            script.main()
        last = capsys.readouterr().err.splitlines()[-1]
        name, value = wrong.split("=")
        assert f"argument {name}: '{value}', expected some of " in last


def test_more_rows_than_a_batch_has_are_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["decoding_profile.py", "--rows=64"])
    with pytest.raises(SystemExit, match="2"):
        decoding_profile.main()
    assert "error: --rows=64: expected 1 to 32" in capsys.readouterr().err


def test_there_is_work_for_all_sizes_that_can_be_asked_for():
    assert set(SHARED_SIZES) == set(make_work._TOKENS) == set(training._BATCHES)
    parser = argparse.ArgumentParser()
    add_arguments(parser, ["ours"], ["gpu_base"])
    parser.set_defaults(sizes="gpu_base", dtypes="bfloat16")
    given = parser.parse_args([])
    assert (given.sizes, given.dtypes) == (["gpu_base"], ["bfloat16"])
