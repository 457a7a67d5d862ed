"""Ways to spoil a configuration: bindings that refer to each other, and whatever can be written."""

import random

from tests.fuzz.mutations import NUMBERS, spoil_bytes

_OWNERS = [
    "BeamSearch", "Translator", "evaluate", "paper_bleu", "adam", "InverseSquareRoot", "train",
    "TextFilesCorpus", "prepare", "TrainingSchedule", "LayerConfig", "Transformer", "DevEvaluation",
    "Checkpoints", "bleu", "chrf", "singleton", "macro", "gin.macro", "constant", "Nobody",
]  # fmt: skip
_PARAMETERS = [
    "beam_size", "length_penalty", "search", "max_extra_length", "max_source_length", "workers",
    "tokens_per_batch", "metrics", "language", "learning_rate", "peak", "optimizer", "callbacks",
    "train", "corpus", "steps", "config", "d_model", "num_layers", "value", "constructor",
    "nothing",
]  # fmt: skip
_MEANT = [
    "BeamSearch.beam_size = {}2", "Translator.max_extra_length = {}9",
    "a/BeamSearch.beam_size = {}3",
    "Translator.search = {}@a/BeamSearch()", "evaluate.metrics = [{}@bleu, @chrf]",
    "adam.learning_rate = {}@a/InverseSquareRoot()", "a/InverseSquareRoot.peak = {}0.1",
    "paper_bleu.language = {}'de'", "prepare.corpus = {}@TextFilesCorpus()", "train.seed = {}%m0",
]  # fmt: skip
# Of these, anything may be bound.
_OWN = (
    "m0 = {}",
    "m1 = {}",
    "evaluate.metrics = {}",
    "a/evaluate.metrics = {}",
    "m0/macro.value = {}",
)
_LITERALS = [
    *map(str, NUMBERS), "0.5", "1e308", "1e999", "1j", "0x" + "f" * 300, "1" * 399, "1_0", "-0",
    "True", "None", "''", "b'x'", "'\\x1b[31m'", "'/dev/zero'", "'a' 'b'", "r'a\\b'", "nan",
    "10**9",
    "'''a\nb'''", "f'{1}'", "...", "()", "[]", "{}",
]  # fmt: skip


def spoil_gin(rng: random.Random, content: bytes) -> bytes:
    """Adds bindings, each of which may refer to any other; sometimes bytes are spoilt too."""
    lines = content.decode().splitlines()
    names = [f"m{number}" for number in range(rng.choice((1, 3, 60)))]
    # What nothing refers to is refused.
    lines += ["TrainingSchedule.steps = %m0", "m0 = 5"]
    for number in range(rng.choice((1, 1, 1, 2, 5, 60))):
        lines.insert(rng.randrange(len(lines) + 1), _statement(rng, names, number))
    text = ("\n".join(lines) + "\n").encode()
    return spoil_bytes(rng, text) if rng.random() < 0.2 else text


def _statement(rng: random.Random, names: list[str], number: int) -> str:
    match rng.randrange(20):
        case 0:
            return rng.choice(("include 'a.gin'", "include '/dev/zero'", "import no_such", "x:"))
        case 1 | 2 | 3:
            # Most chains that double are made so.
            before = f"%{names[(number - 1) % len(names)]}"
            several = ", ".join([before] * rng.choice((1, 2, 3)))
            return f"{names[number % len(names)]} = ({several},)"
        case 4:
            return f"{rng.choice(names)} = {_value(rng, names, 0)}"
        case 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12:
            mark = rng.choice(("", "", "", "-", "(", "[[", "%"))
            return rng.choice(_MEANT).format(mark)
        case 13 | 14:
            return rng.choice(_OWN).format(_value(rng, names, 0))
    return f"{_scope(rng)}{_parameter(rng)} = {_value(rng, names, 0)}"


def _parameter(rng: random.Random) -> str:
    return f"{rng.choice(_OWNERS)}.{rng.choice(_PARAMETERS)}"


def _scope(rng: random.Random) -> str:
    return rng.choice(("", "", "a/", "a/b/", "s/" * 25))


def _value(rng: random.Random, names: list[str], depth: int) -> str:
    match rng.randrange(8):
        case 0:
            return f"%{_scope(rng)}{rng.choice([*names, 'gin.REQUIRED', 'nobody'])}"
        case 1 | 2:
            return f"@{_scope(rng)}{rng.choice(_OWNERS)}{rng.choice(('', '()'))}"
        case 3 if depth < 4:
            parts = ", ".join(
                _value(rng, names, depth + 1) for _ in range(rng.choice((0, 1, 2, 6)))
            )
            return rng.choice(("({})", "[{}]", "[{}] * 9")).format(parts)
        case 4 if depth < 4:
            key, value = (_value(rng, names, depth + 1) for _ in range(2))
            return f"{{{key}: {value}}}"
        case 5:
            begin, end, count = rng.choice(("()", "[]")), "", rng.choice((3, 49, 51, 2000))
            begin, end = begin[0] * count, begin[1] * count
            return begin + rng.choice(_LITERALS) + end
        case 6 if rng.random() < 0.1:
            return "'x' " * rng.choice((99, 101, 30_000)) + rng.choice(("", "1" * 5000))
    return rng.choice(_LITERALS)
