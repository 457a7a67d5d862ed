"""What a stranger's model directory says, as verbs read it: one line, or a moment's work."""

import json
import os
import shutil

import pytest

from tests.commands import outcomes_of, said_by
from tests.strangers.walk import bindings, sizes, write_directory

Verb = tuple[str, list[str], str]

DOUBLING = "".join(f"a{n + 1} = (%a{n}, %a{n})\n" for n in range(42))
ESCAPE = "\x1b]0;mine\x07"
CONFIGURATIONS = {
    "doubling": (f"a0 = 1\n{DOUBLING}evaluate.metrics = %a42\n", "expected at most 100,000 values"),
    "endless": (
        "BeamSearch.beam_size = @BeamSearch()\n",
        "expected what does not lead back to its",
    ),
    "wide": (
        "BeamSearch.beam_size = 1000\nTranslator.max_extra_length = 10_000\n",
        "a sentence takes up to",
    ),
    "texts": ("a = (" + "'x' " * 100_000 + ")\n", "more than 100 texts one behind the other"),
    "itself": ("include 'config.gin'\n", "expected bindings alone"),
    "escape": (
        f"BeamSearch.beam_size = '{ESCAPE}'\n",
        r"BeamSearch.beam_size is '\x1b]0;mine\x07'",
    ),
    "module": (f"import x\nBeamSearch.{ESCAPE} = 1\n", "Malformatted"),
}
TRANSLATE: Verb = ("translate", [], "the red bird\n")
VERBS: list[Verb] = [
    TRANSLATE,
    ("evaluate", ["--source=text", "--reference=text"], ""),
    ("export", ["--export_dir=exported"], ""),
    ("attention_maps", ["--source=a", "--output=maps"], ""),
    ("parse", [], "the red bird\n"),
    ("average", ["--last=1"], ""),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Copies of a model directory, each with a configuration of a stranger's, and others."""
    folder = tmp_path_factory.mktemp("settings")
    whole = write_directory(folder).path
    (folder / "text").write_text("the red bird\n")
    for name, (text, _) in CONFIGURATIONS.items():
        shutil.copytree(whole, folder / name)
        (folder / name / "config.gin").write_text(text)
    for name in ("large", "piped", "devil", "sparse"):
        shutil.copytree(whole, folder / name)
        (folder / name / "config.gin").unlink()
    os.truncate(os.open(folder / "large" / "config.gin", os.O_CREAT | os.O_WRONLY), 10**10)
    os.mkfifo(folder / "piped" / "config.gin")
    (folder / "devil" / "config.gin").symlink_to("/dev/zero")
    (folder / "sparse" / "config.gin").touch()
    spoil = json.loads((folder / "sparse" / "model.json").read_text()) | {"vocab_size": 10**7}
    (folder / "sparse" / "model.json").write_text(json.dumps(spoil))
    os.truncate(folder / "sparse" / "checkpoints" / "step-5.data-00000-of-00001", 10**11)
    return folder


def test_every_verb_says_one_line(folder):
    expected = {name: message for name, (_, message) in CONFIGURATIONS.items()}
    expected |= {
        "large": "large/config.gin: it has more than 1,048,576 bytes",
        "piped": "piped/config.gin: no such file",
        "devil": "devil/config.gin: no such file",
        "sparse": "sparse/model.json describes a model with embedding/table of shape [10000000, 1",
    }
    cases = [(name, TRANSLATE) for name in expected]
    cases += [("doubling", verb) for verb in VERBS[1:]]
    commands = [
        (verb, [f"--model_dir={name}", *flags], given) for name, (verb, flags, given) in cases
    ]
    outcomes = outcomes_of(commands, folder)
    for (name, (verb, *_)), outcome in zip(cases, outcomes, strict=True):
        line = outcome.err.splitlines()[-1]
        assert outcome.status == 2, (name, verb, outcome.err[-2000:])
        assert line.startswith("error: "), (name, verb, line)
        assert expected[name] in line, (name, verb, line)
        assert not {"\x1b", "\x07"} & set(outcome.err)


def test_no_setting_makes_a_verb_hang_or_fill_the_memory():
    """One of forty here, in a process that has a limit of memory; `tests.strangers.walk` all."""
    assert "'works': " in said_by("tests.strangers.walk", "7", "40")


def test_the_walk_misses_nothing(tmp_path):
    valid = json.loads(write_directory(tmp_path).model_json.read_text())
    assert len(list(sizes(valid))) > 600
    texts = list(bindings())
    assert len(texts) > 450
    for name in ("BeamSearch.beam_size", "Translator.tokens_per_batch", "evaluate.metrics"):
        assert sum(text.startswith(name) for text in texts) > 40
