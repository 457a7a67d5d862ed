"""Lists the commands: `python -m t2t_repro`."""

import signal
import sys
from importlib import import_module

COMMANDS = (
    "datagen", "trainer", "average", "translate", "evaluate", "score", "export", "serve", "client",
    "parse", "attention_maps", "import_t2t", "import_marian",
)  # fmt: skip
"""In the order in which they are needed."""


def cli() -> None:
    """Prints a line for each command."""
    if sys.argv[1:] not in ([], ["--help"]):
        example = "python -m t2t_repro.trainer"
        print(f"error: received {sys.argv[1]!r}, expected e.g. {example}", file=sys.stderr)
        sys.exit(2)
    # The reader may go, as `head` does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(
        "python -m t2t_repro.<command> --help, or t2t-repro-<command> --help, says more of each:\n"
    )
    for command in COMMANDS:
        docstring = import_module(f"t2t_repro.{command}").__doc__ or ""
        print(f"  {command:15} {docstring.splitlines()[0].split(': `')[0].rstrip('.')}")


if __name__ == "__main__":
    cli()
