"""Every flag that takes a path takes any of this machine, or says so before anything is done."""

import os
import xml.etree.ElementTree as ElementTree

import pytest

from t2t_repro.__main__ import VERBS
from tests.commands import outcomes_of
from tests.faults.pipeline import write_corpus
from tests.serving.server_process import server_process

# Patterns to TensorFlow, to a shell, to gin, or to whoever prints it.
ODD = "-r[1][!x]*?{a,b}\\n%s%%$HOME ~#'\"&;|<>()=,:@^`ü日本 "

# The flags that take any text. A flag of a new verb that takes a path belongs to
# `command_line.path_flags.define_path`; one that does not, here.
TEXTS = {
    "import", "allowed_host", "checkpoint", "gin_param", "host", "license", "model",
    "model_name", "revision", "server", "source", "split", "target", "word",
}  # fmt: skip

PATHS = {"path", "multi path"}

# What is text for one verb is a file for another.
FILES = {
    ("evaluate", "source"),
    ("import_t2t", "checkpoint"),
    ("score", "source"),
    ("score", "target"),
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """The type of every flag of ours: of (verb, flag), as --helpxml has it."""
    asked = [(verb, ["--helpxml"], "") for verb in VERBS]
    found = {}
    for verb, outcome in zip(
        VERBS, outcomes_of(asked, tmp_path_factory.mktemp("help")), strict=True
    ):
        for flag in ElementTree.fromstring(outcome.out).iter("flag"):
            if "t2t_repro" in flag.findtext("file", ""):
                found[verb, flag.findtext("name", "")] = flag.findtext("type", "")
    return found


def test_whatever_may_be_a_path_is_known_to_be_one(kinds):
    texts = {key for key, kind in kinds.items() if kind in ("string", "multi string")}
    assert {name for _, name in texts} == TEXTS
    assert not texts & FILES
    written = {(verb, name) for verb, name in kinds if name.endswith("_dir") or name == "output"}
    assert all(kinds[key] == "path" for key in written | FILES)
    assert len(written) > len(VERBS)


def test_remote_paths_are_refused_in_one_line(kinds, tmp_path):
    paths = [key for key, kind in kinds.items() if kind in PATHS]
    schemes = ["gs", "s3", "hdfs"]
    remote = [f"{schemes[i % 3]}://bucket/x" for i in range(len(paths))]
    asked = [
        (verb, [f"--{name}={where}"], "") for (verb, name), where in zip(paths, remote, strict=True)
    ]
    outcomes = outcomes_of(asked, tmp_path)
    for (_, (flag,), _), outcome in zip(asked, outcomes, strict=True):
        assert outcome.status == 2, outcome.err
        assert outcome.err.startswith(f"error: flag {flag}: "), outcome.err
        assert "memory-mapped" in outcome.err
        assert "expected a path on this machine: mount it, or copy" in outcome.err
        assert outcome.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "a\nb": "expected a path without line breaks and other control characters, in UTF-8",
    "a\x1b[31mb": "expected a path without line breaks",
    "a\u2028b": "expected a path without line breaks",
    os.fsdecode(b"a\xff"): "in UTF-8",
    "dangling": "is a link to nothing: nowhere",
    "x/" * 2000: "is too long; give one that this system can open",
}


def test_what_cannot_be_written_and_read_is_refused_in_one_line(kinds, tmp_path):
    paths = [key for key, kind in kinds.items() if kind in PATHS]
    (tmp_path / "dangling").symlink_to("nowhere")
    # Each by some flag, and by every flag one.
    given = [list(REFUSED)[i % len(REFUSED)] for i in range(max(len(paths), len(REFUSED)))]
    asked = [
        (verb, [f"--{name}={path}"], "") for (verb, name), path in zip(paths, given, strict=True)
    ]
    for path, outcome in zip(given, outcomes_of(asked, tmp_path), strict=True):
        assert outcome.status == 2, outcome.err
        assert outcome.err.startswith("error: flag --"), outcome.err
        assert REFUSED[path] in outcome.err
        assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dangling"]


def test_home_is_found_as_a_shell_finds_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    asked = [("translate", [f"--model_dir={path}"], "") for path in ("~/model", "~nobody_here/x")]
    home, other = outcomes_of(asked, tmp_path)
    assert f"error: {tmp_path}/home/model is no model directory" in home.err
    assert "error: ~nobody_here/x is no model directory" in other.err


def test_a_whole_experiment_in_a_folder_of_any_name(tmp_path):
    folder = tmp_path / ODD
    folder.mkdir()
    write_corpus(folder)
    (folder / "tiny.gin").rename(folder / f"{ODD}.gin")
    text = {name: str(folder / name) for name in ("train.source", "train.target", "dev.source")}
    pair = text["train.source"], text["train.target"]
    data, model = f"--data_dir={ODD}data", f"--model_dir={ODD}model"
    experiment = [
        *(f"--gin_file={ODD}.gin", data, "--gin_param=TextFilesCorpus.test = 'dev.tsv'"),
        *(f"--gin_param=TextFilesCorpus.{split} = {pair}" for split in ("train", "dev")),
        *(
            "--gin_param=choose_strategy.cpu_replicas = 1",
            "--gin_param=use_xla.jit_compile = False",
        ),
    ]
    (folder / "dev.tsv").write_text("ant bee\tbee ant\n")
    (folder / f"{ODD}.theirs").write_text("bee\n")
    commands = {
        "datagen": experiment,
        "trainer": [*experiment, model, "--gin_param=TrainingSchedule.steps = 4"],
        "trainer again": [*experiment, model, "--gin_param=TrainingSchedule.steps = 8"],
        "average": [model, "--last=2"],
        "evaluate": [model, data, f"--output={ODD}.evaluated", f"--baseline={ODD}.theirs"],
        "translate": [model, f"--input={text['dev.source']}", f"--output={ODD}.translated"],
        "score": [
            *(model, f"--source={text['dev.source']}", f"--target={text['dev.source']}"),
            f"--output={ODD}.scores",
        ],
        "attention_maps": [model, "--source=ant", f"--output={ODD}maps", "--nopictures"],
        "export": [
            f"--model_dir={folder / ODD}model",
            "--export_dir=exported",
            "--model_name=made",
        ],
    }
    asked = [(verb.split()[0], arguments, "") for verb, arguments in commands.items()]
    for outcome in outcomes_of(asked, folder):
        assert outcome.status == 0, outcome.err
    written = (folder / f"{ODD}.translated").read_text(encoding="utf-8").splitlines()
    assert len(written) == 4
    assert len((folder / f"{ODD}.scores").read_text().splitlines()) == 4
    assert (folder / f"{ODD}model" / "scores" / "test.json").exists()
    assert (folder / f"{ODD}maps" / "attention.html").exists()
    with server_process(folder / "exported") as server:
        status, answer = server.predict({"instances": ["ant bee cat"]})
    assert status == 200
    assert len(answer["predictions"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == [ODD]
