"""What runs and is right passes; what is wrong does not."""

import json
import math

import pytest

import smoke_test


def rows(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_is_right_here(capsys):
    with pytest.raises(SystemExit, match="0"):
        smoke_test.main()
    devices, *others = rows(capsys)
    assert devices["case"] == "GPUs"
    assert [row["case"] for row in others] == [
        *("product in float32", "product in bfloat16"),
        *("Adam's kernel", "a program of XLA"),
    ]
    assert all("failed" not in row for row in others)


@pytest.mark.parametrize("error", [1.4e-3, math.nan, math.inf])
def test_a_wrong_result_fails(capsys, error):
    assert not smoke_test.attempt("Adam's kernel", lambda: error, smoke_test.OF_ADAM)
    (row,) = rows(capsys)
    assert row["failed"].startswith(f"ArithmeticError: the error is {error:.1e}, expected 1e-06")


def test_an_update_of_nothing_is_wrong(monkeypatch):
    monkeypatch.setattr(smoke_test.tf.raw_ops, "ResourceApplyAdam", lambda **_: None)
    assert smoke_test.adam() > smoke_test.OF_ADAM
