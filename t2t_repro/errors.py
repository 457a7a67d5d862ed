"""The one error that a command line turns into a single line, and the reasons that it gives."""

import errno
import re

# The machine's state, not a fault of the program: a traceback would say nothing more.
_STORAGE_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.ENAMETOOLONG, errno.ENOTDIR,
}  # fmt: skip

_LONGEST = 2000
_HEAD, _TAIL = 1500, 450

# What TensorFlow's messages say of the operation that failed.
_OPERATION = re.compile(r"^\s*\{\{.*?\}\}\s*| \[Op:\w+\]")
# And, of one within a function, where that was defined, before they come to the point.
_WHERE = re.compile(r"Graph execution error:\s+Detected at node [^\n]*\n(?:(?: |<)[^\n]*\n+)*")


class UserError(ValueError):
    """Something the user gave cannot be used.

    The message is one line: what was received, what was expected, how to mend it. Command lines
    print it without a traceback and exit with status 2.

    Args:
        message: the line, see `printable`; of one that is very long, because it shows what a spoilt
            file holds, the middle is left out.
    """

    def __init__(self, message: str) -> None:
        message = printable(message).replace("\n", " ").replace("\t", " ")
        if len(message) > _LONGEST:
            message = f"{message[:_HEAD]} ... {message[-_TAIL:]}"
        super().__init__(message)


class Unfinished(UserError):
    """A UserError that says nothing against what was made until then.

    The same command, given again, goes on from there.
    """


def printable(text: str) -> str:
    """A text as a terminal may show it.

    A stranger's files hold names with characters that would move its cursor, change its title or
    turn the direction of what follows: these are written as Python's repr does.

    Args:
        text: with whatever is in it; ends of lines and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def storage_error(error: OSError) -> str | None:
    """What is wrong with the disk or its permissions; None where the error is another."""
    # From the text: an error that has passed through gin has lost its number.
    found = re.match(r"\[Errno (\d+)\] (.*)", str(error))
    return found[2] if found and int(found[1]) in _STORAGE_ERRORS else None


def reason_of(error: BaseException) -> str:
    """What an error says in its first line, as a part of a UserError's; its type if nothing."""
    lines = _WHERE.sub("", str(error)).splitlines()
    return _OPERATION.sub("", lines[0]).strip() if lines else type(error).__name__
