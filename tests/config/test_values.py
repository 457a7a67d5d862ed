"""An annotation says which values there are: the same of a call as of a binding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest

from t2t_repro.config.values import Count, Positive, Range, Rate, fits, texts, validated
from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.errors import UserError

INF, NAN = float("inf"), float("nan")


class Shape(Protocol):
    def area(self) -> float: ...


class Square:
    def area(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("hint", "taken", "refused"),
    [
        (Count, [1, 2**31 - 1], [0, -1, 1.0, 2**31, 10**30, INF, NAN, "1", None, True, [1]]),
        (Rate, [0, 0.0, 0.999], [1, -0.1, NAN, INF, "0", None, False]),
        (Positive, [1, 1e-30, 1e9], [0, 0.0, 1e10, INF, NAN, "1", None]),
        (Count | None, [None, 3], [0, "None", 1.5]),
        (str, ["", "a"], [1, None, ["a"]]),
        (float, [1, 1.5, NAN], [True, "1"]),
        (Literal["post", 1], ["post", 1], ["pre", 1.0, True, None]),
        (Sequence[str], [[], ["a"], ("a", "b")], ["a", [1], None, 1]),
        (Mapping[str, int], [{}, {"a": 1}], [["a"], {1: 1}, {"a": "b"}, None]),
        (Callable[[], int], [len], [1, "len", None]),
        (Shape, [Square()], [1, "a", None, Path(), Square, [Square()]]),
        (Cleaning, [Cleaning()], [1, "a", None, Cleaning]),
        (Path, [Path(), "a"], [1, None]),
        (Any, [1, "a", None], []),
    ],
)
def test_what_an_annotation_takes_and_what_not(hint, taken, refused):
    assert [value for value in taken if not fits(value, hint)] == []
    assert [value for value in refused if fits(value, hint)] == []


def test_a_call_s_values_are_checked():
    @validated
    def draw(shape: Shape, size: "Annotated[int, Range(least=1)]" = 1) -> int:
        return size

    assert draw(Square()) == 1
    assert draw(Square(), size=3) == 3
    for wrong in (Path, "shape", object()):
        with pytest.raises(UserError, match=r"draw\.shape is .*, expected a Shape, @name\(\)"):
            draw(wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"draw\.size is 0, expected an integer at least 1\."):
        draw(Square(), 0)
    with pytest.raises(TypeError, match="missing a required argument: 'shape'"):
        draw()  # type: ignore[call-arg]


def test_texts_are_an_iterable_of_texts():
    assert texts("lines", iter("ab")) == ["a", "b"]
    for wrong in ("a", b"a", 5, ["a", None], [b"a"]):
        with pytest.raises(UserError, match=r"lines.* is .*, expected a"):
            texts("lines", wrong)


def test_a_class_that_is_checked_stays_itself():
    @validated
    @dataclass(frozen=True)
    class Sizes:
        """Of something."""

        width: Count = 3

    assert Sizes() == Sizes(3) == Sizes(width=3)
    assert isinstance(validated(Square)(), Square)
    assert Sizes.__doc__ == "Of something."
    with pytest.raises(UserError, match=r"^Sizes\.width is -1, expected"):
        Sizes(-1)
    # A class is named as gin knows it.
    with pytest.raises(UserError, match=r"^Batches\.max_shapes is -1, expected"):
        BatchSettings(max_shapes=-1)
