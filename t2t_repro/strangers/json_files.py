"""JSON files that anyone may have written."""

import json
from pathlib import Path
from typing import Any

MAX_BYTES = 2**24
"""Ours have kilobytes; parsing takes up to a hundred times a file's size."""


def read_json(path: Path) -> Any:
    """Reads a JSON file, in bounded memory and time.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file, no UTF-8, no JSON, nested too deeply, or has more than
            `MAX_BYTES`.
    """
    if path.stat().st_size > MAX_BYTES or not path.is_file():
        raise ValueError(f"expected a file of at most {MAX_BYTES:,} bytes")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
