"""Which code a process runs: a digest of its source."""

import functools
import hashlib
import importlib.util
from pathlib import Path


@functools.cache
def source_digest(module: str) -> str:
    """Returns a digest of the source of a module, or of all files of a package.

    As it was when first asked for, at a process's start: what is installed later, it hardly runs.

    Args:
        module: its name; of a submodule, its whole package counts.

    Returns:
        16 digits, or "none" where there is no source.
    """
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        return "none"
    origin = Path(spec.origin)
    folder = origin.parent
    files = sorted(folder.rglob("*.py")) if spec.submodule_search_locations else [origin]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
