"""The examples of docs/extending.md: modules and gin files of a user's own parts."""

import re
from pathlib import Path
from typing import NamedTuple

from tests.processes import CHECKOUT

PAGE = CHECKOUT / "docs" / "extending.md"
BASE = "reversal.gin"


class Example(NamedTuple):
    """A section of the page.

    Attributes:
        title: its heading.
        modules: Python files, by name.
        gin: its gin file.
    """

    title: str
    modules: dict[str, str]
    gin: str


def examples() -> list[Example]:
    """Returns all sections that have a gin file; the first one is included by the others."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        modules = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", section, re.DOTALL))
        bindings = re.findall(r"```gin\n(.*?)```", section, re.DOTALL)
        if bindings:
            found.append(Example(section.splitlines()[0], modules, "".join(bindings)))
    return found


def write_together(folder: Path) -> None:
    """Writes all examples as one experiment, mine.gin; of two bindings the later one wins."""
    base, *parts = examples()
    bound = {}
    for line in "".join(part.gin for part in parts).splitlines():
        if not line.startswith("include"):
            bound[line.partition(" =")[0]] = line
    # The schedule is then the other optimizer's.
    bound["adamw.learning_rate"] = bound.pop("adam.learning_rate").replace("adam.", "adamw.")
    (folder / BASE).write_text(base.gin, encoding="utf-8")
    lines = [f"include '{BASE}'", *bound.values()]
    (folder / "mine.gin").write_text("\n".join(lines), encoding="utf-8")
    for part in (base, *parts):
        for name, text in part.modules.items():
            (folder / name).write_text(text, encoding="utf-8")
