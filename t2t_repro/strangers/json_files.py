"""JSON files that anyone may have written."""

import json
from pathlib import Path
from typing import Any

from t2t_repro.files.plain_file import read_at_most

MAX_BYTES = 2**24
"""Ours have kilobytes; parsing takes up to a hundred times a file's size."""


def read_json(path: Path) -> Any:
    """Reads a JSON file, in bounded memory and time.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file, no UTF-8, no JSON, nested too deeply, or has more than
            `MAX_BYTES`.
    """
    try:
        return json.loads(read_at_most(path, MAX_BYTES).decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_table(path: Path) -> dict[str, Any]:
    """Reads a JSON file that holds one object, as `read_json` does.

    Raises:
        OSError: it cannot be read.
        ValueError: as of `read_json`, or it holds something else.
    """
    table = read_json(path)
    if not isinstance(table, dict):
        raise ValueError("it is no table of names and values")
    return table
