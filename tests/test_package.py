"""The wheel: all that a machine without a checkout needs."""

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser

import pytest

from t2t_repro.__main__ import VERBS
from tests.processes import CHECKOUT


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that the wheel's files lie in."""
    folder = tmp_path_factory.mktemp("wheel")
    # A copy: building leaves files behind, which would be part of the next wheel.
    for name in ("t2t_repro", "gin"):
        shutil.copytree(CHECKOUT / name, folder / "source" / name)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, folder / "source")
    source = folder / "source"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(installed, tmp_path, *arguments):
    """Runs Python where there is no checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_verb_is_a_command(installed):
    (entries,) = installed.glob("*.dist-info/entry_points.txt")
    scripts = ConfigParser()
    scripts.read(entries)
    commands = dict(scripts["console_scripts"])
    assert len(commands) == len(VERBS) + 1
    for place in commands.values():
        module, function = place.split(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_verbs_are_listed(installed, tmp_path):
    done = run(installed, tmp_path, "-m", "t2t_repro")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == list(VERBS)


def test_all_experiments_are_there(installed):
    here, there = (
        {path.relative_to(folder) for path in folder.rglob("*.gin")}
        for folder in (CHECKOUT / "gin", installed / "t2t_repro" / "gin")
    )
    assert here == there
    assert (installed / "t2t_repro" / "py.typed").is_file()


CONFIGURE = """
import sys, gin, t2t_repro
from t2t_repro import experiment
print(t2t_repro.__file__)
experiment.configure_experiment(sys.argv[1], [])
print(gin.query_parameter("Transformer.num_layers"))
"""


@pytest.mark.parametrize("name", ["base_ende.gin", "gin/base_ende.gin", "mine.gin"])
def test_an_experiment_is_found_by_its_name(installed, tmp_path, name):
    (tmp_path / "mine.gin").write_text("include 'gin/base_ende.gin'\ntrain.seed = 2\n")
    done = run(installed, tmp_path, "-c", CONFIGURE, name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(installed / "t2t_repro" / "__init__.py"), "6"]
