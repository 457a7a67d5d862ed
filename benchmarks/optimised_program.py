"""Reads the text of a program that XLA has optimised for a GPU: which kernels run on what."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_COMPUTATION = re.compile(r"(ENTRY )?%(\S+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%(\S+) = (.*)")
_ARRAY = re.compile(r"([a-z]+)([0-9]*)\[([0-9,]*)\]")
_NAME = re.compile(r"%([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')

# Of these nothing is launched.
_FREE = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id")
)

# What a fusion is named for: the first of these that is in it.
_HEROES = (
    "scatter",
    "dot",
    "reduce-window",
    "reduce",
    "gather",
    "dynamic-update-slice",
    "concatenate",
    "transpose",
)

ENTRY = "ENTRY"


class Instruction(NamedTuple):
    """One line of a computation.

    Attributes:
        name: of what it computes.
        type: of that, an array's or a tuple's.
        opcode: such as "fusion".
        text: from the opcode on.
    """

    name: str
    type: str
    opcode: str
    text: str

    def named(self, attribute: str) -> str:
        """The computation, or whatever else, that an attribute names."""
        found = re.search(rf'{attribute}="?%?([^," )}}]+)', self.text)
        if not found:
            raise ValueError(f"{self.name} has no {attribute}: {self.text[:200]}")
        return found[1]

    def arguments(self) -> set[str]:
        """The names of what it reads."""
        return set(_NAME.findall(self.text[: self.text.index(")")]))


Computations = dict[str, list[Instruction]]


def kernels_by_kind(text: str) -> Counter[str]:
    """Counts what one run of a program launches on the GPU.

    A loop counts as often as it runs, and a condition as its shorter branch: the longer one is for
    gradients whose squares overflow. Counted as one are a call of a library, and a copy.

    Args:
        text: of the optimised program.

    Returns:
        how many of each kind: a fusion's kind is what is in it ("elementwise", "reduce", ...), that
        of a library call is the library's name, that of anything else is its opcode.
    """
    computations = _computations(text)
    kinds: Counter[str] = Counter()
    for instruction, times in _launched(computations, ENTRY, 1):
        kinds[_kind(computations, instruction)] += times
    return kinds


def bytes_moved(text: str) -> int:
    """Adds up how large the arguments and results are of all that one run of a program launches.

    What goes through the GPU's memory is less: a kernel may read a part of its argument, or find it
    in the cache. A library's workspace is left out.

    Args:
        text: of the optimised program.

    Returns:
        bytes.
    """
    computations = _computations(text)
    types = {one.name: one.type for lines in computations.values() for one in lines}
    return sum(
        times * (_result(one) + sum(_bytes(types.get(name, "")) for name in one.arguments()))
        for one, times in _launched(computations, ENTRY, 1)
    )


def _result(instruction: Instruction) -> int:
    arrays = list(_ARRAY.finditer(instruction.type))
    return _bytes(arrays[0][0] if instruction.opcode == "custom-call" else instruction.type)


def _bytes(of_type: str) -> int:
    """The size of an array, or of all arrays of a tuple."""
    return sum(
        math.prod(map(int, filter(None, shape.split(",")))) * max(1, int(bits or 8) // 8)
        for _, bits, shape in _ARRAY.findall(of_type)
    )


def _computations(text: str) -> Computations:
    found: Computations = {}
    lines: list[Instruction] = []
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            lines = found[ENTRY if start[1] else start[2]] = []
        elif instruction := _INSTRUCTION.match(line):
            name, text = instruction.groups()
            behind_type = _behind_type(text)
            of_type = text.removesuffix(behind_type)
            lines.append(Instruction(name, of_type, behind_type.split("(")[0], behind_type))
    return found


def _behind_type(text: str) -> str:
    """What follows the type: a word, or a tuple of them in parentheses."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == " " and not depth:
            return text[place + 1 :]
    raise ValueError(f"an instruction without a type: {text[:200]}")


def _launched(
    computations: Computations, name: str, times: int
) -> Iterator[tuple[Instruction, int]]:
    """Yields what a computation that runs so many times launches, and how often."""
    for instruction in computations[name]:
        opcode = instruction.opcode
        if opcode == "while":
            trips = _TRIPS.search(instruction.text)
            if not trips:
                raise ValueError(f"{instruction.name}: nobody knows how often it runs")
            yield from _launched(computations, instruction.named("body"), times * int(trips[1]))
        elif opcode == "conditional":
            branches = [instruction.named(f"{side}_computation") for side in ("true", "false")]
            found = [list(_launched(computations, branch, times)) for branch in branches]
            yield from min(found, key=len)
        elif opcode == "call":
            yield from _launched(computations, instruction.named("to_apply"), times)
        elif opcode not in _FREE:
            yield instruction, times


def _kind(computations: Computations, instruction: Instruction) -> str:
    if instruction.opcode == "custom-call":
        return instruction.named("custom_call_target").strip("_").replace("$", " ")
    if instruction.opcode != "fusion":
        return instruction.opcode
    inside = {one.opcode for one in computations[instruction.named("calls")]}
    return next((hero for hero in _HEROES if hero in inside), "elementwise")
