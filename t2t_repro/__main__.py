"""Lists the verbs: `python -m t2t_repro`."""

import ast
import signal
import sys
from pathlib import Path

VERBS = (
    "datagen", "trainer", "average", "translate", "evaluate", "score", "export", "serve", "client",
    "parse", "attention_maps", "import_t2t", "import_marian",
)  # fmt: skip
"""The command lines, in the order in which one needs them."""


def cli() -> None:
    """Prints a line for each verb, without importing any."""
    if sys.argv[1:] not in ([], ["--help"]):
        verb = sys.argv[1] if sys.argv[1] in VERBS else "trainer"
        example = f"python -m t2t_repro.{verb}"
        print(f"error: received {sys.argv[1]!r}, expected e.g. {example}", file=sys.stderr)
        sys.exit(2)
    # The reader may go, as `head` does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print("python -m t2t_repro.<verb> --help, or t2t-repro-<verb> --help, says more of each:\n")
    for verb in VERBS:
        source = Path(__file__).with_name(f"{verb}.py").read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        print(f"  {verb:15} {docstring.splitlines()[0].split(': `')[0].rstrip('.')}")


if __name__ == "__main__":
    cli()
