"""Every flag that takes a path wants one of this machine, and says so before anything is done."""

import xml.etree.ElementTree as ElementTree

import pytest

from t2t_repro.__main__ import VERBS
from tests.commands import outcomes_of

# The flags that take any text. A flag of a new verb that takes a path belongs to
# `command_line.define_path`; one that does not, here.
TEXTS = {
    "allow_import", "checkpoint", "gin_param", "host", "model_name", "server", "source", "split",
    "target", "word",
}  # fmt: skip

# What is text for one verb is a file for another.
FILES = {("evaluate", "source"), ("import_t2t", "checkpoint")}


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
    paths = [key for key, kind in kinds.items() if kind == "path"]
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
