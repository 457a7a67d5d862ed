"""Files that anyone may have put there, read in bounded memory and time."""

from pathlib import Path


def read_at_most(path: Path, most: int) -> bytes:
    """Reads a file.

    What its size says is not believed: those of /proc have none, and a sparse one has any.

    Args:
        path: of the file.
        most: bytes that it may have.

    Returns:
        its content.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file (a pipe would never end), or has more bytes.
    """
    if not path.is_file():
        raise ValueError("no such file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content
