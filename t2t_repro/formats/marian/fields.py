"""Reads the settings of Marian models, in both forms, by one rule.

A field that decides weights, ids or what is computed of them is honoured, or refused by name. Any
other field is harmless where its value is false, null, 0 or empty; otherwise a warning names it.
"""

import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml
from absl import logging
from safetensors import SafetensorError

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_json

TIED = {
    (True, True): "all", (True, False): "source_target",
    (False, True): "target_softmax", (False, False): "none",
}  # fmt: skip
"""`tied_embeddings` of whether source and target, and target and softmax, share a table."""

Content = TypeVar("Content")

_POINTER = b"version https://git-lfs"
# What the libraries that read these files raise where one is damaged; RuntimeError and KeyError are
# h5py's and SentencePiece's.
_DAMAGED = (
    OSError, ValueError, RuntimeError, KeyError, EOFError, SafetensorError, yaml.YAMLError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_SAVED = "what save_pretrained of MarianMTModel and MarianTokenizer write: copy the directory again"


def read_file(path: Path, read: Callable[[Path], Content], expected: str = _SAVED) -> Content:
    """Reads a file of a Marian model.

    Args:
        path: of the file.
        read: reads its content.
        expected: what the file should be, and how to mend it, for the error.

    Raises:
        UserError: it is missing, not what `read` expects, or was not fetched from Git LFS.
    """
    refuse_pointer(path)
    try:
        return read(path)
    except _DAMAGED as error:
        raise UserError(
            f"{path} cannot be used ({reason_of(error)}); expected {expected}."
        ) from error


def refuse_pointer(path: Path) -> None:
    """Refuses what Git LFS leaves in the place of a file that it has not fetched.

    Raises:
        UserError: it is such a pointer.
    """
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise UserError(
                f"{path} is a pointer of Git LFS, expected the file itself: run git lfs pull in "
                "its repository, or download the file."
            )


class Fields:
    """The settings of a file, as far as they are known.

    Args:
        path: of the file, in JSON by default.
        read: reads its content.
        expected: as in `read_file`.

    Attributes:
        values: of all fields.
        known: names of the fields that were read or checked.
        ignored: values that cannot be honoured, for the warning.

    Raises:
        UserError: the file cannot be read.
    """

    def __init__(
        self, path: Path, read: Callable[[Path], Any] = read_json, expected: str = _SAVED
    ) -> None:
        self.path = path
        self.values: dict[str, Any] = read_file(path, read, expected)
        self.known: set[str] = set()
        self.ignored: list[str] = []

    def value(self, name: str, default: Any = None) -> Any:
        """Returns the value of a field, or the default where it is missing or null.

        Raises:
            UserError: it has another type than the default.
        """
        self.known.add(name)
        value = self.values.get(name)
        if value is None:
            return default
        kind = (int, float) if isinstance(default, float) else type(default)
        if default is not None and not isinstance(value, kind):
            raise self.refused(name, f"a value like {default!r}")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Returns a whole number from 1 on."""
        size = self.value(name, default)
        if type(size) is not int or size < 1:
            raise self.refused(name, "a size")
        return size

    def one_of(self, name: str, ours: Mapping[str, str], default: str) -> str:
        """Returns our name of a value.

        Raises:
            UserError: we have none.
        """
        value = self.value(name, default)
        if value not in ours:
            raise self.refused(name, f"one of {', '.join(ours)}")
        return ours[value]

    def require(self, name: str, *expected: Any) -> None:
        """Refuses a field that is there and has none of the expected values."""
        if self.value(name) not in (None, *expected):
            raise self.refused(name, " or ".join(map(repr, expected)))

    def require_empty(self, *names: str) -> None:
        """Refuses fields that are not false, null, 0 or empty."""
        for name in names:
            if self.value(name):
                raise self.refused(name, "false, null, 0 or empty")

    def refused(self, name: str, expected: str) -> UserError:
        """Returns the error for a value that cannot be imported."""
        return UserError(
            f"{self.path} has {name} = {self.values.get(name)!r}, expected {expected}: a model "
            "with another value cannot be imported."
        )

    def warn(self, harmless: Collection[str]) -> None:
        """Warns of what is ignored: fields that are not known, if their values say anything."""
        ignored = self.ignored + [
            f"{name} = {value!r}"
            for name, value in self.values.items()
            if value and name not in self.known and name not in harmless
        ]
        if ignored:
            logging.warning(f"{self.path} has settings without effect here: {', '.join(ignored)}")
