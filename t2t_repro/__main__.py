"""Lists the verbs: `python -m t2t_repro`."""

import ast
import sys
from pathlib import Path

from t2t_repro.command_line.program import write_no_more

VERBS = (
    "datagen",
    "trainer",
    "average",
    "translate",
    "evaluate",
    "score",
    "export",
    "serve",
    "client",
    "parse",
    "attention_maps",
    "import_t2t",
    "import_marian",
)
"""The command lines, in the order in which one needs them."""


def cli() -> None:
    """Prints a line a verb, without importing any; refuses arguments, which are a verb's."""
    if sys.argv[1:] not in ([], ["--help"]):
        example = sys.argv[1] if sys.argv[1] in VERBS else "trainer"
        print(
            f"error: received {sys.argv[1]!r}, expected nothing: a verb is joined with a dot, as "
            f"in python -m t2t_repro.{example}",
            file=sys.stderr,
        )
        sys.exit(2)
    lines = ["python -m t2t_repro.<verb> --help, or t2t-repro-<verb> --help, says more of each:\n"]
    for verb in VERBS:
        source = Path(__file__).with_name(f"{verb}.py").read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        lines.append(f"  {verb:15} {docstring.splitlines()[0].split(': `')[0].rstrip('.')}")
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:
        write_no_more()


if __name__ == "__main__":
    cli()
