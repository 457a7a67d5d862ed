"""Folders cut into pieces that travel one at a time, and put together where all have arrived.

A piece is a folder with some chunks of a tar archive, each compressed by itself, and pieces.json,
which lists the chunks of all pieces with their checksums. Needs nothing but Python.
"""

import contextlib
import hashlib
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

MIB = 2**20
# Small, so that a packed one always fits a piece, and every core has one to unpack.
CHUNK = 16 * MIB
LIST = "pieces.json"

Sums = dict[str, dict[str, str]]
"""Of every piece the chunks, of every chunk the SHA-256 of its file."""


def pack(folder: Path, out: Path, piece_bytes: int, level: int) -> list[int]:
    """Cuts a folder into pieces, `out`/1, `out`/2 and so on; those of before are deleted.

    Args:
        folder: all files in it are packed.
        out: for the pieces.
        piece_bytes: of a piece's chunks at most.
        level: of xz.

    Returns:
        the bytes of each piece.
    """
    for old in out.glob(f"*/{LIST}"):
        shutil.rmtree(old.parent)
    sizes: list[int] = []
    sums: Sums = {}
    for number, data in enumerate(_compressed(folder, level)):
        if not sizes or sizes[-1] + len(data) > piece_bytes:
            sizes.append(0)
        sizes[-1] += len(data)
        piece = out / str(len(sizes))
        piece.mkdir(parents=True, exist_ok=True)
        name = f"{number:03d}.xz"
        (piece / name).write_bytes(data)
        sums.setdefault(piece.name, {})[name] = hashlib.sha256(data).hexdigest()
    for name in sums:
        (out / name / LIST).write_text(json.dumps(sums, indent=1), encoding="utf-8")
    return sizes


def _compressed(folder: Path, level: int) -> Iterator[bytes]:
    """Archives a folder, and compresses the archive in chunks, one on every core."""
    reading, writing = os.pipe()

    def archive() -> None:
        with os.fdopen(writing, "wb") as file, tarfile.open(fileobj=file, mode="w|") as tar:
            for path in sorted(folder.rglob("*")):
                if not path.is_dir():
                    tar.add(path, path.relative_to(folder), filter=_of_nobody)

    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores + 1) as pool, os.fdopen(reading, "rb") as file:
        archiving = pool.submit(archive)
        running = []
        for data in _chunks_of(file):
            running.append(pool.submit(lzma.compress, data, preset=level))
            # No more chunks in memory than there are cores.
            if len(running) >= cores:
                yield running.pop(0).result()
        for one in running:
            yield one.result()
        archiving.result()


def _chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leaves out whose a file was, and since when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def keep(piece: Path, kept: Path) -> None:
    """Copies a piece to where all are kept.

    Raises:
        SystemExit: it is no piece, or of another set than those that are there.
    """
    listed = piece / LIST
    if not listed.is_file():
        raise SystemExit(f"error: {piece} is no piece: it has no {LIST}")
    kept.mkdir(parents=True, exist_ok=True)
    if (kept / LIST).is_file() and not is_of(piece, kept):
        raise SystemExit(
            f"error: {piece} is of another set than the pieces in {kept}: delete those"
        )
    for path in sorted(piece.iterdir()):
        # Whole or not at all: a machine may be taken away meanwhile.
        partial = kept / f"{path.name}.part"
        shutil.copy(path, partial)
        partial.rename(kept / path.name)


def is_of(piece: Path, kept: Path) -> bool:
    """Whether a folder is a piece of the set that is kept."""
    lists = [folder / LIST for folder in (piece, kept)]
    return all(path.is_file() for path in lists) and len({path.read_bytes() for path in lists}) == 1


def missing(kept: Path) -> list[str]:
    """Names the pieces that have not arrived: the first, as long as there is none."""
    if not (kept / LIST).is_file():
        return ["1"]
    return [
        piece
        for piece, chunks in _sums(kept).items()
        if not all((kept / name).is_file() for name in chunks)
    ]


def unpack(kept: Path, folder: Path) -> None:
    """Makes the folder that was packed, of pieces that are all there; several cores unpack.

    Raises:
        SystemExit: a chunk is damaged.
    """
    chunks = sorted((name, its) for piece in _sums(kept).values() for name, its in piece.items())

    def chunk(named: tuple[str, str]) -> bytes:
        name, expected = named
        data = (kept / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != expected:
            raise SystemExit(f"error: {kept / name} is damaged: bring its piece again")
        return lzma.decompress(data)

    reading, writing = os.pipe()

    def extract() -> None:
        with os.fdopen(reading, "rb") as file, tarfile.open(fileobj=file, mode="r|") as archive:
            archive.extractall(folder, filter="data")

    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        extracting = pool.submit(extract)
        # Where extracting fails, the pipe breaks: what it has to say is told below.
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as file:
            for data in pool.map(chunk, chunks):
                file.write(data)
        extracting.result()


def _sums(kept: Path) -> Sums:
    found: Sums = json.loads((kept / LIST).read_text(encoding="utf-8"))
    return found
