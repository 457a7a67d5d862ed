"""The one error that a command line turns into a single line."""


class UserError(ValueError):
    """Something the user gave cannot be used.

    The message is one line: what was received, what was expected, how to mend it. Command lines
    print it without a traceback and exit with status 2.
    """
