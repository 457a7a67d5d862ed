"""Runs a command, or lists them all: `python -m t2t_repro [command]`."""

import signal
import sys
from importlib import import_module
from importlib.metadata import version

# The commands, in the order in which they are needed.
COMMANDS = (
    "datagen", "trainer", "average", "translate", "evaluate", "score", "export", "serve", "client",
    "parse", "attention_maps", "import_t2t", "import_marian", "import_hugging_face",
    "import_ctranslate2",
)  # fmt: skip


def cli() -> None:
    """Runs the command that the first argument names, e.g. attention_maps or attention-maps.

    --version prints the version; --help, or no argument, lists all commands. For anything else
    the exit status is 2.
    """
    first, *arguments = sys.argv[1:] or ["--help"]
    if (command := first.replace("-", "_")) in COMMANDS:
        # The command reads its flags from here; --help shows the program's name.
        sys.argv = [f"t2t_repro {first}", *arguments]
        import_module(f"t2t_repro.{command}").cli()
    elif first == "--version":
        print(f"t2t_repro {version('t2t_repro')}")
    elif first == "--help":
        _list_commands()
    else:
        print(f"error: received {first!r}, expected one of {', '.join(COMMANDS)}", file=sys.stderr)
        sys.exit(2)


def _list_commands() -> None:
    """Prints the name of each command, and the first line of its docstring."""
    # The reader of the list may close the pipe, as `head` does. Python ignores SIGPIPE otherwise.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print("For details: python -m t2t_repro.<command> --help, or t2t-repro-<command> --help\n")
    for command in COMMANDS:
        # Only the summary of a line such as "Trains a model: `python -m t2t_repro.trainer`."
        summary = (import_module(f"t2t_repro.{command}").__doc__ or "").partition("\n")[0]
        print(f"  {command:15} {summary.partition(': `')[0].rstrip('.')}")


if __name__ == "__main__":
    cli()
