"""Gives a model directory settings that nobody means: `python -m tests.strangers.walk`.

Every parameter that a verb reads from config.gin, and every size of model.json, one odd value after
the other, in a process that has a limit of memory. Each is refused in one line, or works in a
moment. Prints what did neither.
"""

import json
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from t2t_repro import experiment
from t2t_repro.attention.maps import PairAttention
from t2t_repro.config.configurables import parameters_of
from t2t_repro.errors import UserError
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model, write_subwords

SECONDS = 120
"""The widest beam there is takes half a minute on a busy machine."""
MEMORY = 8 * 2**30
"""Of addresses, beyond what a process has that has translated once; what is freed stays mapped."""

READ = ["BeamSearch", "Translator", "evaluate", "paper_bleu"]
"""What verbs call that use a trained model."""

NUMBERS = [
    "0", "-1", "1", "1000", "1024", "10_000", "100_000", "1_000_000", "1_000_000_000", "2147483648",
    "1" + "0" * 30, "0.5", "1e-308", "1e9", "1e308", "-1e308", "1e999", "1j",
]  # fmt: skip
OTHERS = [
    "b'x'", "'many'", "'\\x1b[31m'", "'../../etc/passwd'", "None", "True", "[]", "{1: 2}", "@bleu",
    "@bleu()", "@BeamSearch()", "@s/BeamSearch()", "@Translator", "@train", "@s/singleton()",
    "@constant()", "@gin.macro()", "%gin.REQUIRED", "@evaluate()", "@adam()", "[@bleu] * 2",
    "(@Translator,)", "(@train,)", "(@evaluate,)", "[@prepare]", "(@adam,)", "[@attention_images]",
    "[1]", "['a']", "[" + "@exact_match, " * 101 + "]", "(@exact_match, @strict_bracket_f1)",
]  # fmt: skip
PAIRS = [
    "BeamSearch.beam_size = 1024\nTranslator.max_extra_length = 10_000",
    "BeamSearch.beam_size = 200\nTranslator.max_extra_length = 10_000",
    "Translator.tokens_per_batch = 1_000_000\nBeamSearch.beam_size = 100",
    "Translator.workers = 1024\nTranslator.tokens_per_batch = 1",
    "BeamSearch.length_penalty = 100\nTranslator.max_extra_length = 200",
]
SIZES: list[Any] = [
    0, -1, 1, 2, 3, 301, 10**6, 10**9, 2**31, 10**30, 0.5, 1e308, float("inf"), float("nan"), None,
    True, "x", "\x1b[31m", "glu", "softmax", "none", "learned", "post", [], {}, [[]], {"a": 1},
]  # fmt: skip


class Late(BaseException):
    """Something took too long."""


def write_directory(folder: Path) -> ModelDirectory:
    """Writes a model directory that can be used."""
    subwords = shared(SentencePieceModel(write_subwords(folder / "subwords.model")))
    directory, model = ModelDirectory(folder / "model"), random_model(subwords.target)
    directory.describe(model, subwords, "", "")
    directory.write_imported(model, 5)
    return directory


def use(directory: ModelDirectory) -> None:
    """Does what verbs do with a model directory."""
    translator = experiment.load_translator(directory.path)
    translator.translate(["the red bird", "", "a tree " * 5])
    for score in experiment.evaluate(["a b c d"], ["a b c e"]):
        str(score)


def use_for_other_verbs(directory: ModelDirectory) -> None:
    """Does what export and attention_maps do."""
    translator = experiment.load_translator(directory.path)
    Servable(translator, "float32")
    PairAttention(translator.model, translator.subwords, "the red bird", "a tree").maps()


def bindings() -> Iterator[str]:
    """Configurations, each with one odd value, or two large ones."""
    yield from PAIRS
    for name in READ:
        for parameter in parameters_of(name):
            for value in [*NUMBERS, *OTHERS]:
                called = "\nevaluate.metrics = [@paper_bleu]" if name == "paper_bleu" else ""
                yield f"{name}.{parameter} = {value}{called}"


def sizes(valid: dict) -> Iterator[dict]:
    """What a model.json says, each with one odd value, or without one."""
    for value in SIZES:
        for name in [*valid, "trainable", "name", "layers"]:
            yield valid | {name: value}
        for name in [*valid["config"], "layers"]:
            yield valid | {"config": valid["config"] | {name: value}}
    for name in valid:
        yield {key: value for key, value in valid.items() if key != name}
    for name in valid["config"]:
        left = {key: value for key, value in valid["config"].items() if key != name}
        yield valid | {"config": left}


def outcome(function: Callable[[ModelDirectory], None], directory: ModelDirectory) -> str:
    """How it ended: "refused", "works", or what is wrong."""
    signal.alarm(SECONDS)
    try:
        function(directory)
    except UserError as error:
        line = str(error).splitlines()[0]
        return "refused" if line.isprintable() and len(line) < 2100 else f"an unclear line: {line}"
    except Late:
        return "takes long"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]!r}"
    finally:
        signal.alarm(0)
    return "works"


def _stop(*_: object) -> None:
    raise Late


def main() -> int:
    """Walks over the share of all that the arguments name, such as 0 of 4; how many were wrong."""
    share, shares = int(sys.argv[1]), int(sys.argv[2])
    counts = {"refused": 0, "works": 0}
    with tempfile.TemporaryDirectory() as name:
        directory = write_directory(Path(name))
        use(directory)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.signal(signal.SIGALRM, _stop)
        wrong = 0
        valid = json.loads(directory.model_json.read_text())
        cases = [("config.gin", text) for text in bindings()]
        cases += [("model.json", json.dumps(one)) for one in sizes(valid)]
        for number, (file, text) in enumerate(cases):
            if number % shares != share:
                continue
            (directory.path / file).write_text(text)
            found = outcome(use, directory)
            if found == "works" and file == "model.json":
                found = outcome(use_for_other_verbs, directory)
            counts[found] = counts.get(found, 0) + 1
            if found not in ("refused", "works"):
                print(f"{file}: {text[:300]}: {found}", flush=True)
                wrong += 1
            if found == "takes long":
                # It goes on in TensorFlow's threads, and whatever comes after has no memory.
                break
            directory.config_gin.write_text("")
            directory.model_json.write_text(json.dumps(valid))
    print(len(cases), counts)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
