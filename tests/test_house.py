"""The house: who may import whom, and how large it may grow. docs/scope.md gives the limits."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import SpecifierSet

from t2t_repro import __version__

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "t2t_repro"
# From the ground up. Commands, __init__ and __main__ stand above all: they import any room.
FLOORS = [
    {"errors", "vocabulary", "progress"},
    {"files"},
    {"config"},
    {"model", "text"},
    {"data", "runs"},
    {"decoding", "evaluation", "attention"},
    {"documents"},
    {"training", "formats", "parsing", "serving", "command_line"},
    {"experiment"},
]
MOST_LINES, MOST_FILES, MOST_OF_A_FUNCTION, MOST_ARGUMENTS = 14_350, 180, 60, 7
MOST_GIN_LINES = 950
# Keras's own configuration.
WIDE = {"Transformer.__init__"}
TESTS_PER_LINE = 1.15


def floor(room: str) -> int:
    return next((n for n, rooms in enumerate(FLOORS) if room in rooms), len(FLOORS))


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path], with_types: bool = True) -> Iterator[str]:
    """Yields the modules of the package that a file imports, also inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree if with_types else WithoutTypes().visit(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("t2t_repro"):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("t2t_repro"))


class WithoutTypes(ast.NodeTransformer):
    """Leaves out what is imported for annotations alone."""

    def visit_If(self, node: ast.If) -> ast.If | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


def docstring_lines(tree: ast.AST) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def code_lines(path: Path) -> set[int]:
    """Returns the lines on which code stands: no blanks, comments or docstrings."""
    text = path.read_text(encoding="utf-8")
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    silent |= {tokenize.ENCODING, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(ast.parse(text))


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child  # type: ignore[misc]
        named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from functions(child, f"{prefix}{child.name}." if named else prefix)  # type: ignore


def size_of(folder: Path) -> int:
    return sum(len(code_lines(path)) for path in folder.rglob("*.py"))


def test_no_import_runs_upwards():
    known = modules()
    wrong = []
    for name, path in known.items():
        room = name.split(".")[1] if "." in name else ""
        for other in imports(path, known):
            other_room = other.split(".")[1] if "." in other else ""
            is_above = floor(other_room) >= floor(room) and room != other_room
            if is_above and (floor(room) < len(FLOORS) or other_room == ""):
                wrong.append(f"{name} -> {other}")
    assert not wrong


def test_no_files_import_each_other_in_a_circle():
    known = modules()
    edges = {
        name: {*imports(path, known, with_types=False)} & known.keys() - {name}
        for name, path in known.items()
    }
    while leaves := {name for name, others in edges.items() if not others & edges.keys()}:
        edges = {name: others for name, others in edges.items() if name not in leaves}
    assert not edges


def test_the_package_is_small():
    files = list(PACKAGE.rglob("*.py"))
    assert len(files) <= MOST_FILES
    assert size_of(PACKAGE) <= MOST_LINES
    assert size_of(ROOT / "gin") <= MOST_GIN_LINES  # The wheel carries them.


def test_tests_are_not_much_larger_than_the_package():
    assert size_of(ROOT / "tests") <= TESTS_PER_LINE * size_of(PACKAGE)


def test_functions_fit_a_screen_and_have_few_arguments():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        lines = code_lines(path)
        for name, node in functions(ast.parse(path.read_text(encoding="utf-8"))):
            size = len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
            given = node.args
            names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
            count = len(names - {"self", "cls"}) + bool(given.vararg) + bool(given.kwarg)
            if size > MOST_OF_A_FUNCTION or (count > MOST_ARGUMENTS and name not in WIDE):
                wrong.append(f"{path.name}: {name}: {size} lines, {count} arguments")
    assert not wrong


def test_the_citation_has_the_package_s_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [__version__]


def test_ruff_before_a_commit_is_that_of_the_tests():
    (required,) = re.findall(r'"ruff([^"]+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (version,) = re.findall(r"rev: v(\S+)", hooks)
    assert version in SpecifierSet(required)


def test_the_pythons_that_pip_takes_are_those_of_the_classifiers():
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    minors = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)", text)]
    assert f'python_requires=">=3.{min(minors)},<3.{max(minors) + 1}"' in text
