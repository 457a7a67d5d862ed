"""What files of weights have in common, as Hugging Face's libraries write them.

A reader checks what a header says before anything of the weights is read: types, shapes, and where
each tensor lies. Nothing is read but what is asked for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.strangers.checkpoint_index import check_claims

Shape = tuple[int, ...]

MAX_TENSORS = 100_000
"""Of a file."""

MAX_RANK = 8
"""Of a tensor."""

MAX_BYTES = 2**35
"""Of a file, and so of all that is in it."""


class WeightsFile(Protocol):
    """Tensors by name, with the names and the shapes that PyTorch's models have."""

    @property
    def path(self) -> Path:
        """Where the file lies."""

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor, by its name."""

    def read(self, name: str) -> NDArray[np.float32]:
        """Reads a tensor.

        Raises:
            UserError: it cannot be read.
        """


def checked_size(path: Path) -> int:
    """Returns the bytes of a file, which is one and was written whole.

    Raises:
        OSError: it cannot be looked at.
        ValueError: it is no file, has too many bytes, or such as were never written.
    """
    if not path.is_file():
        raise ValueError("no such file")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    check_claims(str(path), size)
    return size


def read_at(path: Path, begin: int, count: int) -> bytes:
    """Reads so many bytes of a file.

    Raises:
        OSError: they cannot be read.
        ValueError: there are fewer.
    """
    with path.open("rb") as file:
        file.seek(begin)
        content = file.read(count)
    if len(content) != count:
        raise ValueError(f"it ends {count - len(content):,} bytes early")
    return content


def damaged(path: Path, kind: str, error: BaseException) -> UserError:
    """Returns what to raise where a file is not what it should be.

    Args:
        path: of the file.
        kind: what it should be.
        error: what is wrong.
    """
    return UserError(
        f"{path} cannot be used ({reason_of(error)[:300]}), expected a {kind} with float32, "
        "float16 or bfloat16: copy it again, or give another model."
    )
