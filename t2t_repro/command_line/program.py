"""Runs a command line: a user's mistake is one line and status 2.

A command calls `import_tensorflow` after all checks that need none, so mistakes are reported soon.
"""

import gc
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from logging import WARNING, Formatter, LogRecord, getLogger
from typing import NoReturn

from absl import app, flags, logging
from tqdm import tqdm

from t2t_repro.errors import UserError, printable, storage_error

# TensorFlow reads it when it is imported. "2" shows only errors of its C++ code, "3" none: without
# a GPU they are about CUDA.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3")

# The paths of TensorFlow's modules, whose log messages are not shown.
_TENSORFLOW_MODULE = re.compile(r"[/\\]tensorflow[/\\]python[/\\]")


def run(main: Callable[[], None]) -> NoReturn:
    """Parses the flags, runs `main` and ends the process with a status.

    0: `main` has returned, or the reader of its output has closed the pipe, as `head` does.
    1: an exception that is not listed here. It is a bug and keeps its traceback.
    2: a `UserError`, or an error of the disk; it becomes one line on standard error.
    130: Ctrl-C.

    Args:
        main: the program; it reads absl.flags.FLAGS.
    """

    def run_and_report_errors(argv: Sequence[str]) -> None:
        _set_up_logging()
        _refuse_arguments(argv[1:])
        try:
            main()
        except UserError as error:
            # gin appends lines about the call in which the error was raised.
            _fail(str(error).splitlines()[0])
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(130)  # 128 + SIGINT, as shells have it.
        except BrokenPipeError:
            # At exit Python writes the rest of its buffer, which would fail too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            if reason := storage_error(error):
                _fail(f"{reason}: fix that, then give the same command again.")
            raise

    flags.DEFINE_enum("log_format", "short", ["short", "absl"], "Of a line: short has the time.")
    flags.DEFINE_bool("version", False, "Print the version.")
    # absl's --help shows the docstring of __main__, which an installed command does not have.
    sys.modules["__main__"].__doc__ = sys.modules[main.__module__].__doc__
    # --help lists only the key flags of the command: here its own, and those that all share.
    for module in (__name__, f"{__package__}.flags", main.__module__):
        for flag in flags.FLAGS.get_flags_for_module(module):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
            # A flag that is given twice is a mistake, except those that collect several values.
            flag.allow_overwrite = False
    app.run(run_and_report_errors, flags_parser=_parse_flags)


def _set_up_logging() -> None:
    """Logs to standard error from level INFO on, without TensorFlow's and sacreBLEU's messages.

    Lines are short, or as absl writes them, by --log_format.
    """
    logging.set_verbosity(logging.INFO)
    handler = logging.get_absl_handler().python_handler
    handler.setStream(AboveBars())
    if flags.FLAGS.log_format == "short":
        handler.setFormatter(_ShortLines())
    # TensorFlow's modules report inner steps, such as each part of a SavedModel that is written.
    handler.addFilter(lambda record: not _TENSORFLOW_MODULE.search(record.pathname))
    getLogger("sacrebleu").setLevel(WARNING)


class _ShortLines(Formatter):
    """Log lines such as "12:45:43 message" and "12:45:43 warning: message"."""

    def formatMessage(self, record: LogRecord) -> str:
        """Returns the line, without the traceback that may follow it."""
        level = f"{record.levelname.lower()}: " if record.levelno >= WARNING else ""
        return f"{self.formatTime(record, '%H:%M:%S')} {level}{record.message}"


def import_tensorflow() -> None:
    """Imports TensorFlow faster, and without its messages.

    The import takes two thirds of the usual time. No environment variable suppresses the messages
    about oneDNN and missing GPUs, so stderr is redirected.
    """
    if "tensorflow" in sys.modules:
        return
    # As a file descriptor: the messages come from C++ code.
    stderr_copy = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    # The import makes half a million objects, all of which stay.
    gc.disable()
    # None keeps Keras from importing matplotlib, which is slow and only draws its plots.
    matplotlib = sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]
    try:
        import tensorflow  # noqa: F401
    finally:
        if matplotlib is None:
            del sys.modules["matplotlib"]
        gc.freeze()
        gc.enable()
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)


class AboveBars(io.TextIOBase):
    """Standard error for the log: writes `printable` lines above progress bars."""

    def write(self, text: str) -> int:
        """Writes text that ends a line; returns its length, as files do."""
        tqdm.write(printable(text), file=sys.stderr, end="")
        return len(text)


def _parse_flags(argv: Sequence[str]) -> Sequence[str]:
    """Parses the flags; returns the program's name and the arguments that are not flags.

    Ends the process after --help and --version, with status 0, and after a mistake, which is
    reported in one line, with status 2.
    """
    # The reader of --help may close the pipe, as `head` does. Python ignores SIGPIPE otherwise.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if "--version" in argv:
        print(f"t2t_repro {version('t2t_repro')}")
        sys.exit()
    try:
        return flags.FLAGS(argv)
    except SystemExit:
        # absl ends --help with status 1.
        sys.stdout.flush()
        sys.exit()
    except flags.Error as error:
        _fail(f"{_reworded(error, argv)}: see --help.")
    finally:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _reworded(error: flags.Error, argv: Sequence[str]) -> str:
    """Returns absl's message about a command line in one line, and in our words.

    Ends the process if a required flag is missing and an argument is not a flag: its dashes may
    have been forgotten, so the error is about the argument.
    """
    message = " ".join(str(error).split())
    if missing := re.match(r"flag (--\w+)=None: Flag \1 must have a value", message):
        value_flags = {f"--{name}" for name in flags.FLAGS if not flags.FLAGS[name].boolean}
        # The argument after such a flag is its value: "--name value".
        no_values = (argument for before, argument in pairwise(argv) if before not in value_flags)
        _refuse_arguments([argument for argument in no_values if not argument.startswith("-")])
        return f"{missing[1]} is missing"
    given_twice = r"flag (--\w+)=(.*): already defined as (.*)"
    message = re.sub(given_twice, r"\1 is given as \3 and as \2, expected once", message)
    # absl puts a space in front of the question mark of a suggestion.
    return message.replace(" ?", "?")


def _refuse_arguments(arguments: Sequence[str]) -> None:
    """Ends the process if there are arguments that are not flags; the message names the first."""
    if arguments:
        _fail(f"received {arguments[0]!r}, expected flags only, such as --name=value: see --help.")


def _fail(message: str) -> NoReturn:
    """Prints one line to standard error, and ends the process with status 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)
