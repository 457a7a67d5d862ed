"""How a command line runs: a user's mistake is one line and status 2.

A verb imports what it needs inside its `main`: TensorFlow takes seconds, which --help and a
misspelt flag need not wait for.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags, logging

from t2t_repro.errors import UserError, printable, storage_error

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it.

# Modules of TensorFlow that say of every checkpoint how many microseconds a callback took, of every
# SavedModel the names of thousands of inputs, and at its loading that it has no gradients, and of
# replicas what the run's own log says; and of a checkpoint that does not fit, after our own error,
# every value. Of sacreBLEU, one that counts its own steps.
_TALKATIVE = {
    "functional_saver", "signature_serialization", "builder_impl", "fingerprinting_utils",
    "function_deserialization", "mirrored_strategy", "cross_device_ops", "checkpoint",
    "significance",
}  # fmt: skip


def run(main: Callable[[], None]) -> NoReturn:
    """Parses the flags and runs `main`.

    A UserError, or what is wrong with the disk, becomes one line on standard error and status 2;
    Ctrl-C one line and status 130.
    Any other exception is a bug, ours or the user's: it keeps its traceback, and status 1.

    Args:
        main: the program; it reads its flags from absl.flags.FLAGS.
    """

    def guarded(argv: Sequence[str]) -> None:
        logging.set_verbosity(logging.INFO)
        handler = logging.get_absl_handler().python_handler
        handler.setStream(AboveBars())
        handler.addFilter(lambda record: record.module not in _TALKATIVE)
        if len(argv) > 1:
            _fail(f"received the argument {argv[1]!r}, expected flags only: see --help.")
        try:
            main()
        except UserError as error:
            # gin appends lines of its own about the call that it made.
            _fail(str(error).splitlines()[0])
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            write_no_more()
        except Exception as error:
            if isinstance(error, OSError) and (reason := storage_error(error)):
                _fail(f"{reason}: mend that, then give the same command again.")
            from t2t_repro.config.configurables import say_where

            say_where(error)
            raise

    # --help has the text and the flags of the module that was started; an installed command starts
    # another module than the verb's.
    sys.modules["__main__"].__doc__ = sys.modules[main.__module__].__doc__
    shared = [m for m in flags.FLAGS.flags_by_module_dict() if m.startswith(f"{__package__}.")]
    for module in (*shared, main.__module__):
        for flag in flags.FLAGS.get_flags_for_module(module):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    app.run(guarded, flags_parser=_parse_flags)


def write_no_more() -> None:
    """Drops what is still to be written: the reader has gone, as `head` does; nothing is wrong."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class AboveBars(io.TextIOBase):
    """Standard error for the log.

    Its lines do not tear the progress bars that are there, and steer no terminal; see `printable`.
    """

    def write(self, text: str) -> int:
        """Writes text that ends a line."""
        from tqdm import tqdm

        tqdm.write(printable(text), file=sys.stderr, end="")
        return len(text)

    def flush(self) -> None:
        """Flushes standard error."""
        sys.stderr.flush()


def _parse_flags(argv: Sequence[str]) -> Sequence[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        message = " ".join(str(error).split())
        if missing := re.match(r"flag (--\w+)=None: Flag \1 must have a value", message):
            _fail(f"{missing[1]} is missing: see --help.")
        _fail(f"{message.replace(' ?', '?')}: see --help.")


def _fail(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)
