"""The error that command lines print in one line, and functions for such messages."""

import errno
import importlib.util
import re

# The state of the machine, not a bug: a traceback would not help.
STORAGE_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST,
}  # fmt: skip

# Mistakes in source code. They keep their traceback where any other error is blamed on a file.
BUGS = NameError, ImportError, AssertionError

# What TensorFlow adds to a reason: the failed operation, "{{node a}} " or " [Op:SaveV2]", ...
_OPERATION = re.compile(r"^\s*\{\{.*?\}\}\s*| \[Op:\w+\]")
# ... and, in front, the place in the source where it was defined.
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
        if len(message) >= 2000:
            # The beginning says what is wrong, the end how to fix it. The new message is
            # below the limit: an error that is made of it is not cut again.
            message = f"{message[:1500]} ... {message[-450:]}"
        super().__init__(message)


def printable(text: str) -> str:
    """Escapes unprintable characters, such as a terminal's controls, as repr does.

    Newlines and tabs are kept.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def storage_error(error: OSError) -> str | None:
    """Returns an error's text if the disk or permissions fail: "No space left on device: 'x'".

    Returns None for all other errors.
    """
    # Read from the text: gin copies an error without its `errno`.
    matched = re.match(r"\[Errno (\d+)\] (.*)", str(error))
    return matched[2] if matched and int(matched[1]) in STORAGE_ERRORS else None


def reason_of(error: BaseException) -> str:
    """Returns an error's first line without TensorFlow's additions, or its type's name."""
    lines = _WHERE.sub("", str(error)).strip().splitlines()
    return _OPERATION.sub("", lines[0]).strip() if lines else type(error).__name__


def require_installed(*modules: str, extra: str) -> None:
    """Checks that modules are installed.

    Args:
        modules: their names.
        extra: the extra of setup.py that installs them; the error names it.

    Raises:
        UserError: a module is missing.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise UserError(f"{module} is not installed: pip install '.[{extra}]' in the checkout.")
