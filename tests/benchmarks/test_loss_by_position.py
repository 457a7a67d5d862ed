"""The table of losses by position: what it averages, and which subwords a line has."""

import json
import sys

import numpy as np
import pytest

import loss_by_position
from loss_by_position import table
from t2t_repro.errors import UserError


def write(path, pairs):
    path.write_text("".join(json.dumps({"log_probabilities": pair}) + "\n" for pair in pairs))
    return path


def run(monkeypatch, base, other):
    flags = ["--base", *map(str, base), "--other", *map(str, other)]
    monkeypatch.setattr(sys, "argv", ["loss_by_position.py", *flags])
    loss_by_position.main()


def test_seeds_are_averaged_subword_by_subword(tmp_path, monkeypatch, capsys):
    base = [
        write(tmp_path / "a", [[-1.0, -2.0], [-3.0]]),
        write(tmp_path / "b", [[-3.0, -2.0], [-5.0]]),
    ]
    run(monkeypatch, base, [write(tmp_path / "c", [[-2.5, -3.0], [-4.5]])])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| 0 | 2 | +0.500 ± 0.000 | 50 % |",
        "| all | 3 | +0.667 | 100 % |",
    ]


def test_a_line_has_the_subwords_of_its_positions():
    base = [np.zeros(5), np.zeros(2), np.zeros(32)]
    other = [np.full(5, 0.5), np.array([1.0, 0.5]), np.where(np.arange(32) < 4, 0.5, 0.0)]
    lines = table(base, other)
    assert lines[2:6] == [
        "| 0 | 3 | +0.667 ± 0.327 | 33 % |",
        "| 1 | 3 | +0.500 ± 0.000 | 25 % |",
        "| 2 to 3 | 4 | +0.500 ± 0.000 | 33 % |",
        "| 4 to 7 | 5 | +0.100 ± 0.196 | 8 % |",
    ]
    assert lines[-2:] == [
        "| 30 or more | 2 | +0.000 ± 0.000 | 0 % |",
        "| all | 39 | +0.154 | 100 % |",
    ]


@pytest.mark.parametrize("other", [[[-1.0]], [[-1.0, -2.0], [-1.0]]])
def test_scores_of_the_same_pairs_are_asked_for(tmp_path, monkeypatch, other):
    base = write(tmp_path / "base", [[-1.0, -2.0]])
    with pytest.raises(UserError, match=r"other has other subwords than .*base, expected scores"):
        run(monkeypatch, [base], [write(tmp_path / "other", other)])


@pytest.mark.parametrize("line", ["-3.5\t7", "5", "{}"])
def test_scores_of_every_subword_are_asked_for(tmp_path, monkeypatch, line):
    (tmp_path / "scores").write_text(line)
    with pytest.raises(UserError, match=r"scores is not what `t2t_repro.score --tokens` writes"):
        run(monkeypatch, [tmp_path / "scores"], [tmp_path / "scores"])
