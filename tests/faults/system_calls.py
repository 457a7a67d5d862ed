"""What Linux can do and Python, before 3.12 at least, does not offer."""

import ctypes
import os


def system_call(name: str, *arguments: int | bytes | None) -> None:
    """Calls a function of the C library.

    Raises:
        OSError: it failed.
    """
    c_library = ctypes.CDLL(None, use_errno=True)
    if getattr(c_library, name)(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
