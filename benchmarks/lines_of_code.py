"""Counts lines of code by folder: blank lines, comments and docstrings apart.

    python benchmarks/lines_of_code.py [--before=<another checkout>]

Only statements count: what the parser finds, without the strings that document it.
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PACKAGE = "t2t_repro"
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    arguments = parser.parse_args()
    checkouts = [path for path in (arguments.before, HERE) if path]
    counts = [by_folder(path / PACKAGE) for path in checkouts]
    print(f"| folder | {' | '.join(['before', 'after'][-len(counts) :])} |")
    print(f"|---|{'---|' * len(counts)}")
    for folder in sorted(set().union(*counts)):
        print(f"| {folder} | {' | '.join(str(count[folder]) for count in counts)} |")
    print(f"| all | {' | '.join(str(count.total()) for count in counts)} |")


def by_folder(package: Path) -> Counter[str]:
    """The lines of code of every folder of a package; its own files count as "."."""
    counts: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        counts[str(path.relative_to(package).parent)] += lines_of_code(path.read_text("utf-8"))
    return counts


def lines_of_code(source: str) -> int:
    """Counts the lines of a module that hold code."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        # A string alone is documentation: of what it begins, or of the constant before it.
        for statement in body if isinstance(body, list) and isinstance(node, _DOCUMENTED) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                end = statement.end_lineno or statement.lineno
                documentation.update(range(statement.lineno, end + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE and token.type != tokenize.ENDMARKER:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation)


if __name__ == "__main__":
    main()
