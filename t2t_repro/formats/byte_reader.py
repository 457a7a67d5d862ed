"""Reads binary files of numbers and names from their beginning to their end."""

import numpy as np
from numpy.typing import NDArray


class ByteReader:
    """Reads numbers and names from bytes, one after the other; `rest` has those not read yet.

    Args:
        content: all bytes.
    """

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self.rest = content

    def read_array(self, dtype: str, count: int) -> NDArray:
        """Reads the next `count` numbers of a dtype such as "<u4", and returns them: [count].

        Raises:
            ValueError: fewer bytes are left; none of them is read.
        """
        size = count * np.dtype(dtype).itemsize
        if size > len(self.rest):
            # No whole sentence: `imported.read_file` puts the file's path in front.
            raise ValueError(f"it ends too early, by {size - len(self.rest):,} bytes")
        data, self.rest = self.rest[:size], self.rest[size:]
        return data.view(dtype)

    def read_number(self, dtype: str) -> int:
        """Reads the next integer of a dtype, and returns it.

        Raises:
            ValueError: fewer bytes are left than it has.
        """
        return int(self.read_array(dtype, 1).item())

    def read_name(self, length: int) -> str:
        """Reads the next name, of `length` bytes, and returns it without the NUL at its end.

        Raises:
            ValueError: fewer bytes are left; or the name is not UTF-8, or has not exactly one NUL,
                at its end.
        """
        name = self.read_array("u1", length).tobytes()
        if not name or name.find(b"\0") != len(name) - 1:
            raise ValueError(f"it has the name {name!r}, expected NUL at its end only")
        return name[:-1].decode()
