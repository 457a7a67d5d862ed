"""What all command lines share: a user's mistake is one line and status 2.

A verb imports what it needs inside its `main`: TensorFlow takes seconds, which --help and a
misspelt flag need not wait for.
"""

import errno
import importlib.util
import io
import os
import re
import shlex
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from absl import app, flags, logging

from t2t_repro.errors import UserError, printable, storage_error
from t2t_repro.quiet_start import import_tensorflow

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it.

# Bytes of the longest path in a directory that a verb writes.
_LONGEST_BELOW = 200

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
            # The reader of our output has gone, as `head` does; nothing is wrong.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            if isinstance(error, OSError) and (reason := storage_error(error)):
                _fail(f"{reason}: mend that, then give the same command again.")
            from t2t_repro.bindings.configurables import say_where

            say_where(error)
            raise

    # --help has the text and the flags of the module that was started; an installed command starts
    # another module than the verb's.
    sys.modules["__main__"].__doc__ = sys.modules[main.__module__].__doc__
    for module in (__name__, main.__module__):
        for flag in flags.FLAGS.get_flags_for_module(module):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    app.run(guarded, flags_parser=_parse_flags)


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


class _LocalPath(flags.ArgumentParser[str]):
    """A file or directory of this machine, where another program would take gs://... as well."""

    def parse(self, argument: str) -> str:
        scheme, separator, _ = argument.partition("://")
        if separator:
            raise ValueError(
                "token stores are memory-mapped, checkpoints and all output are written aside and "
                f"renamed, which {scheme}:// does not allow; expected a path on this machine: "
                "mount it, or copy from and to a local disk"
            )
        if not all(map(_fits_on_a_line, argument)):
            raise ValueError(
                "expected a path without line breaks and other control characters, in UTF-8: "
                "TensorFlow and the log cannot take others"
            )
        # A shell does so too, but not behind "--flag=".
        path = os.path.expanduser(argument)
        if os.path.islink(path) and not os.path.exists(path):
            raise ValueError(f"is a link to nothing: {os.readlink(path)}")
        _check_length(path)
        return path

    def flag_type(self) -> str:
        return "path"


def _fits_on_a_line(character: str) -> bool:
    """Whether it is one of Unicode's letters, marks, numbers, symbols, spaces or their like."""
    category = unicodedata.category(character)
    return category[0] in "LMNPS" or category in ("Zs", "Cf", "Co", "Cn")


def _check_length(path: str) -> None:
    names = [f"{os.sep}{name}" for name in path.split(os.sep)]
    for looked_for in (os.path.join(path, "x" * _LONGEST_BELOW), *names):
        try:
            os.lstat(looked_for)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise ValueError(
                    "is too long; give one that this system can open, and a file below it"
                ) from error


def define_path(name: str, default: str | None, help_text: str, is_required: bool = False) -> None:
    """Defines a flag that takes a file or directory.

    Args:
        name: of the flag.
        default: its value where it is not given.
        help_text: for --help.
        is_required: whether it has to be given.
    """
    flags.DEFINE(
        _LocalPath(), name, default, help_text,
        serializer=flags.ArgumentSerializer(), required=is_required,
    )  # fmt: skip
    if is_required:
        flags.register_validator(name, lambda path: path != "", "expected a path")


def define_paths(name: str, help_text: str) -> None:
    """Defines a flag that takes a file or directory, and may be given several times."""
    flags.DEFINE_multi(_LocalPath(), flags.ArgumentSerializer(), name, [], help_text)


def define_model_dir(is_required: bool = True) -> None:
    """Defines --model_dir."""
    define_path("model_dir", None, "The model directory of a training run.", is_required)


def define_trained_model(is_required: bool = True) -> None:
    """Defines the flags of the verbs that use a trained model; evaluate can do without one."""
    define_model_dir(is_required)
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of the run's configuration.")
    define_allow_import()
    flags.DEFINE_string(
        "checkpoint",
        None,
        "averaged, best, latest or checkpoints/step-<n>; by default the first there is of "
        "averaged, best, latest.",
    )


def define_ensemble() -> None:
    """Defines --ensemble, for the verbs that can use several models."""
    define_paths(
        "ensemble",
        "The model directory of another model with the same subwords, which translates with it: "
        "probabilities are the mean of all. Can be given several times.",
    )


def define_allow_import() -> None:
    """Defines --allow_import, for what a model directory's configuration would run."""
    flags.DEFINE_multi_string(
        "allow_import",
        [],
        "A module of yours that the model was trained with and may run; to be given once for a "
        "model directory, unless you have trained it yourself.",
    )


def find_checkpoint(model_dir: str | None = None) -> str:
    """Finds the checkpoint that the flags of `define_trained_model` say, and says which it is.

    To be asked once: a trainer at work may have written the next one a moment later.

    Args:
        model_dir: another one than that of --model_dir.

    Returns:
        its path, relative to the model directory.

    Raises:
        UserError: there is none.
    """
    import_tensorflow()
    from t2t_repro.training.model_directory import ModelDirectory

    model_dir = model_dir or flags.FLAGS.model_dir
    directory = ModelDirectory(model_dir)
    checkpoint = directory.checkpoint(flags.FLAGS.checkpoint)
    name = os.path.relpath(checkpoint, directory.path)
    logging.info("using %s of %s", name, directory.path)
    if newer := directory.choice.newer_than_average(checkpoint):
        logging.warning(
            f"that average is older than {os.path.relpath(newer, directory.path)}: average again "
            f"(python -m t2t_repro.average --model_dir={shlex.quote(model_dir)}), or "
            "give --checkpoint=latest"
        )
    return name


def load_translator(
    checkpoint: str, precision: str | None = None, ensemble: Sequence[str] = ()
) -> "Translator":
    """Loads a checkpoint as the flags of `define_trained_model` say, to decode a batch a core.

    See `experiment.load_translator`.

    Args:
        checkpoint: what `find_checkpoint` found.
        precision: see `ModelDirectory.new_model`.
        ensemble: what --ensemble gave, where the verb has it.
    """
    import_tensorflow()
    from t2t_repro import experiment
    from t2t_repro.decoding.cores import one_core_a_batch

    one_core_a_batch()
    given = flags.FLAGS
    others = [(path, find_checkpoint(path)) for path in ensemble]
    return experiment.load_translator(
        given.model_dir, given.gin_param, checkpoint, precision, given.allow_import, others
    )


def define_experiment(is_required: bool = True) -> None:
    """Defines the flags of the verbs that read a gin file; the trainer can do without one."""
    text = "The experiment, e.g. gin/base_ende.gin."
    define_path("gin_file", None, text, is_required)
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of it, e.g. 'train.seed = 2'.")
    define_path("data_dir", None, "For data; runs/<experiment>/data by default.")


def check_gin_file() -> None:
    """Says at once, before TensorFlow is imported, that --gin_file does not exist.

    Raises:
        UserError: it does not.
    """
    from t2t_repro.configuration import find_gin_file, read_bindings

    given = flags.FLAGS.gin_file
    read_bindings(find_gin_file(given), f"--gin_file={given}")


def default_directory(name: str) -> Path:
    """Returns where an experiment keeps its "data" or "model" unless told otherwise."""
    return Path("runs") / Path(flags.FLAGS.gin_file).stem / name


def check_model_name() -> None:
    """Says that --model_name cannot be part of a URL, where clients will put it.

    Raises:
        UserError: it cannot.
    """
    name = flags.FLAGS.model_name
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise UserError(
            f"--model_name={name}: expected letters, digits, '_', '-' and '.'; "
            "it becomes part of a URL."
        )


def check_new(flag: str) -> None:
    """Says that a directory to be made is there already, with something in it.

    Args:
        flag: that names it.

    Raises:
        UserError: it is.
    """
    path = Path(str(flags.FLAGS[flag].value))
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(
            f"--{flag}={path} is there already; expected a directory to be made: give another, or "
            "delete it."
        )


@contextmanager
def making(flag: str) -> Iterator[Path]:
    """Keeps other processes from making the same directory.

    Args:
        flag: that names it.

    Yields:
        its absolute path.

    Raises:
        UserError: another process makes it; it is named.
    """
    from t2t_repro.data.file_lock import held_alone

    given = str(flags.FLAGS[flag].value)
    path = Path(os.path.abspath(given))
    # Beside it: the directory itself appears whole.
    lock = path.with_name(f".{path.name}.lock")
    with held_alone(lock, given, f"give another --{flag}"):
        yield path


def check_extra(extra: str, *modules: str) -> None:
    """Says how to install what a verb needs beyond the package's own requirements.

    Args:
        extra: of setup.py.
        *modules: that it installs.

    Raises:
        UserError: one of them is missing.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed: pip install 't2t_repro[{extra}]'.")
