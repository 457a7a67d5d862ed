"""The error that command lines print in one line, reasons for its message, and a check."""

import errno
import importlib.util
import re

# The state of the machine, not a bug: a traceback would not help.
STORAGE_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST,
}  # fmt: skip

# Mistakes in source code: they keep their traceback, where else any error is that of a file.
BUGS = NameError, ImportError, AssertionError

# What TensorFlow's messages say about the operation that failed.
_OPERATION = re.compile(r"^\s*\{\{.*?\}\}\s*| \[Op:\w+\]")
# And about where it was defined, before the reason.
_WHERE = re.compile(r"Graph execution error:\s+Detected at node [^\n]*\n(?:(?: |<)[^\n]*\n+)*")


class UserError(ValueError):
    """Something that the user gave cannot be used.

    Command lines print the message without a traceback and exit with status 2.

    Args:
        message: one line: what was received, what was expected, how to fix it. It is made
            `printable`; the middle of a very long one is left out.
    """

    def __init__(self, message: str) -> None:
        message = printable(message).replace("\n", " ").replace("\t", " ")
        super().__init__(
            message if len(message) < 2000 else f"{message[:1500]} ... {message[-450:]}"
        )


def printable(text: str) -> str:
    """Escapes the controls of a terminal, as Python's repr does; keeps newlines and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def storage_error(error: OSError) -> str | None:
    """Returns the reason if it is the disk or its permissions, else None."""
    # From the text: gin's copy of an error has lost its number.
    matched = re.match(r"\[Errno (\d+)\] (.*)", str(error))
    return matched[2] if matched and int(matched[1]) in STORAGE_ERRORS else None


def reason_of(error: BaseException) -> str:
    """Returns an error's first line, or its type, for a message."""
    lines = _WHERE.sub("", str(error)).splitlines()
    return _OPERATION.sub("", lines[0]).strip() if lines else type(error).__name__


def require_installed(*modules: str, extra: str) -> None:
    """Checks that the modules of one of setup.py's extras are installed.

    Raises:
        UserError: a module is missing.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed: pip install '.[{extra}]' in the checkout.")
