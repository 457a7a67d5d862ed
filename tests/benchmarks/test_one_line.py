"""What a user mistakes is one line; what is a bug keeps its traceback."""

import runpy
import sys

import pytest

from one_line import mistakes_in_one_line
from t2t_repro.errors import UserError
from tests.processes import CHECKOUT

MISTAKES = {
    "alignment --model_dir=nope": "nope is no model directory",
    "hugging_face_round_trip --model_dir=nope --lines=nope --env_dir=made": "nope is no model",
    "make_work --multi30k=nope --work=work": "in nope; give as local_dir a clone of",
    "evalb --evalb=nope --parameters=nope --trees=nope": "cannot read nope",
    "parse_lengths --trees=nope --symbols=nope": "cannot read nope",
    "loss_by_position --base nope --other nope": "cannot read nope",
    "memory --gpu=H900": "--gpu: invalid choice: 'H900'",
    "gpu_ahead --gpus H100 H900": "--gpus: invalid choice: 'H900'",
    "equal_budget --toolkits=ours,pytorch": "--toolkits=ours,pytorch: expected some of ours,",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_said_without_a_traceback(tmp_path, monkeypatch, capsys, command):
    name, *arguments = command.split()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(CHECKOUT / "benchmarks" / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error: " in last
    assert MISTAKES[command] in last
    assert not list(tmp_path.iterdir())


def test_a_bug_is_none():
    def main():
        raise ValueError("a bug")

    def mistaken():
        raise UserError("nope")

    with pytest.raises(ValueError, match="a bug"):
        mistakes_in_one_line(main)
    with pytest.raises(SystemExit, match="2"):
        mistakes_in_one_line(mistaken)
