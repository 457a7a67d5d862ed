"""Blanks the GPU code of other chips in shared libraries: zeros pack to nothing.

CUDA keeps, in an ELF section of its own, fat binaries: each a header and entries of PTX or of
machine code, every one for an architecture. Sizes and headers stay as they are and the payloads
of the others become zeros: CUDA opens only the entry that fits the chip.
"""

import mmap
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_SECTION = ".nv_fatbin"
_MAGIC = 0xBA55ED50
_PTX, _MACHINE_CODE = 1, 2


class Entry(NamedTuple):
    """GPU code within a fat binary.

    Attributes:
        kind: PTX or machine code.
        chip: its architecture, 90 for sm_90.
        start: of the payload, in bytes from the file's beginning.
        size: of the payload in bytes.
    """

    kind: int
    chip: int
    start: int
    size: int


def blank_other_chips(library: Path, chip: int) -> int:
    """Blanks, in place, the payloads that a chip does not need.

    Args:
        library: an ELF file.
        chip: its architecture, 90 for sm_90 (H100, H200), 80 for A100.

    Returns:
        how many bytes became zeros.
    """
    blanked = 0
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for start, size in _sections(library):
            for entries in fat_binaries(data, start, start + size):
                kept = needed(entries, chip)
                for entry in entries:
                    if kept is not None and entry[:2] != kept:
                        data[entry.start : entry.start + entry.size] = bytes(entry.size)
                        blanked += entry.size
    return blanked


def fat_binaries(data: mmap.mmap | bytes, start: int, end: int) -> Iterator[list[Entry]]:
    """Reads the fat binaries between two offsets."""
    while start < end:
        magic, _, header, length = struct.unpack_from("<IHHQ", data, start)
        if magic != _MAGIC:  # what aligns the next one
            start += 8
            continue
        inner, start = start + header, start + header + length
        entries = []
        while inner < start:
            kind, _, its_header, size = struct.unpack_from("<HHIQ", data, inner)
            (chip,) = struct.unpack_from("<I", data, inner + 28)
            entries.append(Entry(kind, chip, inner + its_header, size))
            inner += its_header + size
        yield entries


def needed(entries: list[Entry], chip: int) -> tuple[int, int] | None:
    """Says which kind and architecture of a fat binary a chip runs; None where none fits."""
    # Machine code runs on later chips of the same generation, PTX on all later chips.
    code = [e.chip for e in entries if e.kind == _MACHINE_CODE and chip // 10 * 10 <= e.chip <= chip]
    ptx = [e.chip for e in entries if e.kind == _PTX and e.chip <= chip]
    if code:
        return _MACHINE_CODE, max(code)
    return (_PTX, max(ptx)) if ptx else None


def _sections(library: Path) -> Iterator[tuple[int, int]]:
    """Offset and size of the sections with GPU code."""
    listed = subprocess.run(
        ["readelf", "--section-headers", "--wide", library],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in listed.stdout.splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 5 and fields[1] == _SECTION:
            yield int(fields[4], 16), int(fields[5], 16)
