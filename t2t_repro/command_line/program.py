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

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it.

# Before the import of TensorFlow: only errors of its C++ code; without a GPU these are about CUDA.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if os.path.exists("/dev/nvidiactl") else "3")

# Its modules' messages are not shown.
_TENSORFLOW = re.compile(r"[/\\]tensorflow[/\\]python[/\\]")


def run(main: Callable[[], None]) -> NoReturn:
    """Parses the flags, runs `main` and ends the process with a status.

    0: `main` has returned, or the reader of its output has closed the pipe, as `head` does.
    2: a `UserError`, or an error of the disk; it becomes one line on standard error.
    130: Ctrl-C.
    1: any other exception. It is a bug and keeps its traceback.

    Args:
        main: the program; it reads absl.flags.FLAGS.
    """

    def run_and_report_errors(argv: Sequence[str]) -> None:
        _set_up_logging()
        _check_stray(argv[1:])
        try:
            main()
        except UserError as error:
            # gin appends lines about the call that it made.
            _fail(str(error).splitlines()[0])
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            # Python writes its buffer at exit: without this, that would fail too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            if reason := storage_error(error):
                _fail(f"{reason}: fix that, then give the same command again.")
            raise

    flags.DEFINE_enum("log_format", "short", ["short", "absl"], "Of a line: short has the time.")
    flags.DEFINE_bool("version", False, "Print the version.")
    # An installed command starts another module than its own, whose --help it shows.
    sys.modules["__main__"].__doc__ = sys.modules[main.__module__].__doc__
    for module in (__name__, f"{__package__}.flags", main.__module__):
        for flag in flags.FLAGS.get_flags_for_module(module):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
            # Flags that can be given several times collect their values.
            flag.allow_overwrite = False
    app.run(run_and_report_errors, flags_parser=_parse_flags)


def _set_up_logging() -> None:
    """Logs to standard error from level INFO on, without the messages of libraries."""
    logging.set_verbosity(logging.INFO)
    handler = logging.get_absl_handler().python_handler
    handler.setStream(AboveBars())
    if flags.FLAGS.log_format == "short":
        handler.setFormatter(_ShortLines())
    # They report inner steps, such as each part of a SavedModel that is written: noise to users.
    handler.addFilter(lambda record: not _TENSORFLOW.search(record.pathname))
    getLogger("sacrebleu").setLevel(WARNING)


class _ShortLines(Formatter):
    """Log lines such as "12:45:43 message" and "12:45:43 warning: message"."""

    def formatMessage(self, record: LogRecord) -> str:
        """Returns the line, without the traceback that may follow it."""
        mark = f"{record.levelname.lower()}: " if record.levelno >= WARNING else ""
        return f"{self.formatTime(record, '%H:%M:%S')} {mark}{record.message}"


def import_tensorflow() -> None:
    """Imports TensorFlow faster, and without its messages.

    The import takes two thirds of the usual time. No environment variable suppresses the messages
    about oneDNN and missing GPUs, so stderr is redirected.
    """
    if "tensorflow" in sys.modules:
        return
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    # Half a million objects are made, none is garbage.
    gc.disable()
    # Keras would import it for plots that nobody draws here.
    hidden = sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]
    try:
        import tensorflow  # noqa: F401
    finally:
        if hidden is None:
            del sys.modules["matplotlib"]
        gc.freeze()
        gc.enable()
        os.dup2(kept, 2)
        os.close(kept)


class AboveBars(io.TextIOBase):
    """Standard error for the log: its lines stand above progress bars, and are `printable`."""

    def write(self, text: str) -> int:
        """Writes text that ends a line."""
        tqdm.write(printable(text), file=sys.stderr, end="")
        return len(text)


def _parse_flags(argv: Sequence[str]) -> Sequence[str]:
    """Parses the command line; answers --help and --version, and reports mistakes in one line."""
    # The reader of --help may go, as `head` does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if "--version" in argv:
        print(f"t2t_repro {version('t2t_repro')}")
        sys.exit()
    try:
        return flags.FLAGS(argv)
    except SystemExit:
        # absl's --help ends with 1.
        sys.stdout.flush()
        sys.exit()
    except flags.Error as error:
        _fail(f"{_reworded(error, argv)}: see --help.")
    finally:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _reworded(error: flags.Error, argv: Sequence[str]) -> str:
    """Rewords absl's message about a command line; exits if an argument is not a flag."""
    message = " ".join(str(error).split())
    if missing := re.match(r"flag (--\w+)=None: Flag \1 must have a value", message):
        # absl looks for missing flags before it says what else was given.
        # Arguments without dashes, except the values of flags.
        valued = {f"--{name}" for name in flags.FLAGS if not flags.FLAGS[name].boolean}
        words = (word for flag, word in pairwise(argv) if flag not in valued)
        _check_stray([word for word in words if not word.startswith("-")])
        return f"{missing[1]} is missing"
    twice = r"flag (--\w+)=(.*): already defined as (.*)"
    message = re.sub(twice, r"\1 is given as \3 and as \2, expected once", message)
    # absl writes a space after its suggestions.
    return message.replace(" ?", "?")


def _check_stray(arguments: Sequence[str]) -> None:
    if arguments:
        _fail(f"received {arguments[0]!r}, expected flags only, such as --name=value: see --help.")


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)
