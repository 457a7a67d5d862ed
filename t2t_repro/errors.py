"""The one error that a command line turns into a single line, and the reasons that it gives."""

import re

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
        message: the line; of one that is very long, because it shows what a spoilt file holds, the
            middle is left out.
    """

    def __init__(self, message: str) -> None:
        if len(message) > _LONGEST:
            message = f"{message[:_HEAD]} ... {message[-_TAIL:]}"
        super().__init__(message)


def reason_of(error: BaseException) -> str:
    """What an error says in its first line, as a part of a UserError's; its type if nothing."""
    lines = _WHERE.sub("", str(error)).splitlines()
    return _OPERATION.sub("", lines[0]).strip() if lines else type(error).__name__


def printable(text: str) -> str:
    """A text of anyone's for a terminal: what would command it, or break the line, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
