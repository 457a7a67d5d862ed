"""The README's own commands: what it names exists, and takes the flags it is given."""

import re
import shlex
from pathlib import Path

import pytest

from t2t_repro import experiment
from t2t_repro.__main__ import VERBS as LISTED

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", "")
VERBS = sorted(set(re.findall(r"python -m t2t_repro\.(\w+)", README)))
COMMANDS = sorted(set(re.findall(r"python -m t2t_repro\.\w+[^`\n(]*", README)))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?:gin|scripts)/[\w/]+\.\w+", README))))
def test_files_exist(path):
    # gin/mine.gin is the reader's to write.
    assert path == "gin/mine.gin" or (ROOT / path).is_file()


def test_all_verbs_of_the_package_are_shown():
    sources = {path.stem for path in (ROOT / "t2t_repro").glob("*.py")} - {"__main__"}
    runnable = {
        name
        for name in sources
        if '__name__ == "__main__"' in (ROOT / "t2t_repro" / f"{name}.py").read_text()
    }
    assert set(VERBS) == runnable == set(LISTED)


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_are_defined(command):
    words = shlex.split(command)
    module = (ROOT / "t2t_repro" / f"{words[2].split('.')[1]}.py").read_text(encoding="utf-8")
    source = module + (ROOT / "t2t_repro" / "command_line.py").read_text(encoding="utf-8")
    for word in words[3:]:
        if word.startswith("--"):
            assert f'"{word[2:].split("=")[0]}"' in source


def test_the_example_of_ones_own_text_is_accepted(tmp_path, monkeypatch):
    example = re.search(r"```\n(include 'gin/base.gin'.*?)```", README, re.DOTALL)
    assert example is not None
    path = tmp_path / "mine.gin"
    path.write_text(example[1], encoding="utf-8")
    monkeypatch.chdir(ROOT)
    experiment.configure_experiment(path, [])


def test_bindings_on_the_command_line_are_accepted(monkeypatch):
    monkeypatch.chdir(ROOT)
    bindings = re.findall(r'--gin_param="([^"]+)"', README)
    assert len(bindings) >= 3
    for binding in bindings:
        name = "multi30k_tiny" if "Multi30k" in binding else "base_ende"
        experiment.configure_experiment(f"gin/{name}.gin", [binding])
