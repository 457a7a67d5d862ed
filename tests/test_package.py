"""The source distribution and the wheel: all that a machine without a checkout needs."""

import os
import shutil
import site
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from t2t_repro.__main__ import COMMANDS
from tests.oracle import oracle_folder
from tests.processes import CHECKOUT

pytestmark = pytest.mark.slow

FOLDERS = (".ci", "benchmarks", "docs", "gin", "paper", "scripts", "t2t_repro", "tests")


class Package(NamedTuple):
    """What was built, and an environment with the wheel in it.

    Attributes:
        source: the source distribution.
        environment: a virtual environment; it takes the libraries from the one that runs the tests.
        site: its folder of packages.
    """

    source: Path
    environment: Path
    site: Path


def done(*command, **options):
    """What a command wrote to standard output; it must end well."""
    ended = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    # A copy: building leaves files behind, which would be part of the next wheel.
    checkout = folder / "checkout"
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, checkout / name, ignore=ignored)
    for path in CHECKOUT.iterdir():
        if path.is_file():
            shutil.copy(path, checkout)
    done(sys.executable, "setup.py", "sdist", "-d", folder, cwd=checkout)
    (source,) = folder.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "-q")
    done(*pip, "wheel", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    done(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    done(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    packages = Path(done(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (packages / "libraries.pth").write_text("".join(f"{path}\n" for path in site.getsitepackages()))
    return Package(source, environment, packages)


def run(installed, folder, command, *arguments, **options):
    """What a command of the environment wrote to standard output, where there is no checkout."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)
    program = installed.environment / "bin" / command
    return done(program, *arguments, cwd=folder, env=environment, **options)


def test_the_source_has_what_its_tests_need(installed):
    with tarfile.open(installed.source) as archive:
        files = {Path(*Path(m.name).parts[1:]): m.size for m in archive if m.isfile()}
    for name in FOLDERS:
        for path in (CHECKOUT / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(CHECKOUT) in files
    reference = oracle_folder("paper").parent.relative_to(CHECKOUT)
    assert 10**5 < sum(files[path] for path in files if reference in path.parents) < 10**6


SMALL = (
    "GeneratedCorpus.train_size = 2000", "GeneratedCorpus.dev_size = 10",
    "GeneratedCorpus.test_size = 10", "SubwordTraining.vocab_size = 400",
    "LayerConfig.d_model = 32", "LayerConfig.d_ff = 32", "Batches.tokens_per_batch = 512",
    "Batches.max_shapes = 1", "TrainingSchedule.steps = 20", "Checkpoints.every_steps = 10",
)  # fmt: skip


def test_from_data_to_a_servable_by_the_installed_commands(installed, tmp_path):
    experiment = ["--gin_file=quickstart.gin", *(f"--gin_param={binding}" for binding in SMALL)]
    model = "--model_dir=runs/quickstart/model"
    run(installed, tmp_path, "t2t-repro-datagen", *experiment)
    run(installed, tmp_path, "t2t-repro-trainer", *experiment)
    run(installed, tmp_path, "t2t-repro-average", model, "--last=2")
    lines = "Paul read 95 pages.\n\nThe museum is open.\n"
    translated = run(installed, tmp_path, "t2t-repro-translate", model, input=lines)
    assert translated.count("\n") == 3
    run(installed, tmp_path, "t2t-repro-export", model, "--export_dir=exported")
    assert (tmp_path / "exported" / "1" / "saved_model.pb").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "exported"}


def test_the_verbs_are_listed(installed, tmp_path):
    listed = run(installed, tmp_path, "t2t-repro")
    assert [line.split()[0] for line in listed.splitlines()[2:]] == list(COMMANDS)


def test_all_experiments_are_there(installed):
    here, there = (
        {path.relative_to(folder) for path in folder.rglob("*.gin")}
        for folder in (CHECKOUT / "gin", installed.site / "t2t_repro" / "gin")
    )
    assert here == there
    assert (installed.site / "t2t_repro" / "py.typed").is_file()


USER = """
import t2t_repro
from t2t_repro import (
    BeamSearch, InverseSquareRoot, LayerConfig, MultiHeadAttention, Transformer, Translation,
    Translator, TranslatorSettings, load_translator,
)

def build(rows: int) -> Transformer:
    return Transformer(rows, num_layers=2, config=LayerConfig(d_model=64, num_heads=4))

def best(translator: Translator, lines: list[str]) -> list[Translation]:
    settings = TranslatorSettings(search=BeamSearch(beam_size=8, length_penalty=1.0))
    wide = Translator(translator.models, translator.subwords, settings)
    return [found[0] for found in wide.translate(lines, n_best=2)]

print([found.text for found in best(load_translator("model"), ["Hello."])])
print(MultiHeadAttention(2, 4, 4), InverseSquareRoot(0.1, warmup_steps=9).peak + 1)

# Each of these is a mistake; what is ignored and none is an error too.
Transformer("1000")  # type: ignore[arg-type]
Transformer(1000, layers=2)  # type: ignore[call-arg]
best(load_translator("model"), "Hello.")  # type: ignore[arg-type]
t2t_repro.Transfomer  # type: ignore[attr-defined]
"""


def test_a_program_of_a_user_is_type_checked(installed, tmp_path):
    (tmp_path / "user.py").write_text(USER)
    python = installed.environment / "bin" / "python"
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    done(*mypy, "--cache-dir", tmp_path / "cache", "user.py", cwd=tmp_path)
