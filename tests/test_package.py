"""The source distribution and the wheel: all that a machine without a checkout needs."""

import ast
import importlib
import os
import shutil
import site
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path
from typing import NamedTuple

import pytest

import t2t_repro
from t2t_repro.__main__ import VERBS
from tests.oracle import oracle_folder
from tests.processes import CHECKOUT

pytestmark = pytest.mark.slow

FOLDERS = (".ci", "benchmarks", "docs", "gin", "paper", "scripts", "t2t_repro", "tests")


class Package(NamedTuple):
    """What was built, and an environment with the wheel in it.

    Attributes:
        source: the source distribution.
        wheels: built from the checkout and from the source distribution.
        environment: a virtual environment; it takes the libraries from the one that runs the tests.
        site: its folder of packages.
    """

    source: Path
    wheels: tuple[Path, Path]
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
    done(*pip, "wheel", "--no-deps", "-w", folder / "of_checkout", checkout)
    done(*pip, "wheel", "--no-deps", "-w", folder / "of_source", source)
    of_checkout, of_source = (
        next(folder.glob(f"of_{kind}/*.whl")) for kind in ("checkout", "source")
    )
    environment = folder / "environment"
    done(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    done(*pip, "--python", python, "install", "--no-deps", "--no-index", of_source)
    packages = Path(done(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    (packages / "libraries.pth").write_text("".join(f"{path}\n" for path in site.getsitepackages()))
    return Package(source, (of_checkout, of_source), environment, packages)


def run(installed, folder, command, *arguments, **options):
    """What a command of the environment wrote to standard output, where there is no checkout."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONPATH", None)
    program = installed.environment / "bin" / command
    return done(program, *arguments, cwd=folder, env=environment, **options)


def test_the_source_makes_the_same_wheel_as_the_checkout(installed):
    contents = []
    for wheel in installed.wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if not name.endswith("RECORD")]
            contents.append({name: archive.read(name) for name in names})
    of_checkout, of_source = contents
    assert of_checkout == of_source
    assert {name.split("/")[0].split("-")[0] for name in of_source} == {"t2t_repro"}


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


def test_every_verb_is_a_command(installed):
    (entries,) = installed.site.glob("*.dist-info/entry_points.txt")
    scripts = ConfigParser()
    scripts.read(entries)
    commands = dict(scripts["console_scripts"])
    assert len(commands) == len(VERBS) + 1
    for place in commands.values():
        module, function = place.split(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_verbs_are_listed(installed, tmp_path):
    listed = run(installed, tmp_path, "t2t-repro")
    assert [line.split()[0] for line in listed.splitlines()[2:]] == list(VERBS)


def test_all_experiments_are_there(installed):
    here, there = (
        {path.relative_to(folder) for path in folder.rglob("*.gin")}
        for folder in (CHECKOUT / "gin", installed.site / "t2t_repro" / "gin")
    )
    assert here == there
    assert (installed.site / "t2t_repro" / "py.typed").is_file()


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
    written = run(installed, tmp_path, "python", "-c", CONFIGURE, name)
    assert written.split() == [str(installed.site / "t2t_repro" / "__init__.py"), "6"]


USER = """
import t2t_repro
from t2t_repro import (
    BeamSearch, Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, InverseSquareRoot,
    LabelSmoothedCrossEntropy, LayerConfig, MultiHeadAttention, PositionalEncoding,
    Sampling, SharedEmbedding, Transformer, TransformerSchedule, Translation, Translator,
    TranslatorSettings, load_translator,
)

def build(rows: int) -> Transformer:
    return Transformer(rows, num_layers=2, config=LayerConfig(d_model=64, num_heads=4))

def best(translator: Translator, lines: list[str]) -> list[Translation]:
    settings = TranslatorSettings(search=BeamSearch(beam_size=8, length_penalty=1.0))
    wide = Translator(translator.models, translator.subwords, settings)
    return [found[0] for found in wide.translate(lines, n_best=2)]

def drawn(translator: Translator, lines: list[str]) -> list[list[Translation]]:
    search = Sampling(samples=2, temperature=0.7, top_k=10, nucleus=0.9, seed=3)
    settings = TranslatorSettings(search, max_extra_length=20)
    return Translator(translator.models, translator.subwords, settings).translate(lines, n_best=2)

print([found.text for found in best(load_translator("model"), ["Hello."])])
config, dropout = LayerConfig(), LayerConfig().dropout / 2
parts = [Encoder(2, config), Decoder(2, config), EncoderLayer(config), DecoderLayer(config)]
parts += [FeedForward(8, 16), MultiHeadAttention(2, 4, 4), SharedEmbedding(9, 8)]
print(parts, PositionalEncoding(), LabelSmoothedCrossEntropy(label_smoothing=dropout))
print(TransformerSchedule(d_model=64).peak, InverseSquareRoot(0.1, warmup_steps=9).peak + 1)

# Each of these is a mistake; what is ignored and none is an error too.
Transformer("1000")  # type: ignore[arg-type]
Transformer(1000, layers=2)  # type: ignore[call-arg]
LayerConfig(dmodel=64)  # type: ignore[call-arg]
best(load_translator("model"), "Hello.")  # type: ignore[arg-type]
best(load_translator("model"), []).text  # type: ignore[attr-defined]
MultiHeadAttention("two", 4, 4)  # type: ignore[arg-type]
InverseSquareRoot(warmup_steps=9)  # type: ignore[call-arg]
t2t_repro.Transfomer  # type: ignore[attr-defined]
"""


def test_a_program_of_a_user_is_type_checked(installed, tmp_path):
    (tmp_path / "user.py").write_text(USER)
    imports = {n.name for node in ast.parse(USER).body[:2] for n in getattr(node, "names", [])}
    assert imports == {"t2t_repro", *t2t_repro.__all__}
    python = installed.environment / "bin" / "python"
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python)
    done(*mypy, "--cache-dir", tmp_path / "cache", "user.py", cwd=tmp_path)
