"""The one error that a command line turns into a single line."""

_LONGEST = 2000
_HEAD, _TAIL = 1500, 450


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
