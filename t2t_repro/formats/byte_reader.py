"""Reads binary files of numbers and names from their beginning to their end."""

import numpy as np
from numpy.typing import NDArray


class ByteReader:
    """The bytes of a file that are not read yet.

    Args:
        content: all bytes.
    """

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.rest = content

    def array(self, dtype: str, count: int) -> NDArray:
        """Returns the next numbers of a dtype, such as "<u4".

        Raises:
            ValueError: fewer bytes are left.
        """
        size = count * np.dtype(dtype).itemsize
        data, self.rest = self.rest[:size], self.rest[size:]
        if len(data) < size:
            raise ValueError(f"it ends too early, by {size - len(data):,} bytes")
        return data.view(dtype)

    def number(self, dtype: str) -> int:
        """Returns the next number."""
        return int(self.array(dtype, 1)[0])

    def name(self, length: int) -> str:
        """Returns the next name, of `length` bytes with the NUL at its end.

        Raises:
            ValueError: the last byte is not NUL, or an earlier one is.
        """
        name = self.array("u1", length).tobytes()
        if name.find(b"\0") != len(name) - 1:
            raise ValueError("it has a name without an end")
        return name[:-1].decode()
