"""Of GPU code only that of the chip stays, and nothing moves."""

import shutil
import struct
import subprocess

import pytest

import gpu_code
from gpu_code import Entry, blank_other_chips, fat_binaries, needed

PTX, CODE = 1, 2


def entry(kind, chip, payload):
    header = struct.pack("<HHIQ", kind, 0x101, 64, len(payload))
    return (header + bytes(12) + struct.pack("<I", chip)).ljust(64, b"\0") + payload


def fat_binary(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_entries_are_found_behind_padding():
    data = bytes(8) + fat_binary(entry(CODE, 80, b"a" * 16), entry(PTX, 90, b"b" * 8))
    data += bytes(16) + fat_binary(entry(CODE, 75, b"c" * 24))
    found = list(fat_binaries(data, 0, len(data)))
    assert [[one[:2] for one in entries] for entries in found] == [[(2, 80), (1, 90)], [(2, 75)]]
    payloads = [data[one.start : one.start + one.size] for entries in found for one in entries]
    assert payloads == [b"a" * 16, b"b" * 8, b"c" * 24]


@pytest.mark.parametrize(
    ("entries", "chip", "expected"),
    [
        ([(CODE, 80), (CODE, 90), (PTX, 90)], 90, (CODE, 90)),
        ([(CODE, 80), (CODE, 86), (CODE, 90)], 89, (CODE, 86)),  # of the same generation
        ([(CODE, 80), (PTX, 80), (PTX, 70)], 90, (PTX, 80)),  # compiled there
        ([(CODE, 80), (PTX, 100)], 90, None),  # then nothing is blanked
    ],
)
def test_what_a_chip_runs_is_kept(entries, chip, expected):
    assert needed([Entry(kind, chip, 0, 0) for kind, chip in entries], chip) == expected


@pytest.mark.skipif(not all(map(shutil.which, ("gcc", "objcopy", "readelf"))), reason="no binutils")
def test_other_chips_code_becomes_zeros_in_place(tmp_path):
    payloads = [entry(CODE, 80, b"a" * 64), entry(CODE, 90, b"b" * 64), entry(PTX, 90, b"c" * 64)]
    (tmp_path / "fat").write_bytes(fat_binary(*payloads))
    (tmp_path / "empty.c").write_text("int x;\n")
    library = tmp_path / "library.so"
    subprocess.run(["gcc", "-shared", "-o", library, tmp_path / "empty.c"], check=True)
    section = f"{gpu_code._SECTION}={tmp_path / 'fat'}"
    subprocess.run(["objcopy", "--add-section", section, library], check=True)
    before = library.read_bytes()
    assert blank_other_chips(library, 90) == 128
    after = library.read_bytes()
    assert len(after) == len(before)
    assert after == before.replace(b"a" * 64, bytes(64)).replace(b"c" * 64, bytes(64))
