"""Marian's binary files: what is written is read again, and what is damaged is refused."""

import struct

import numpy as np
import pytest

from t2t_repro.formats.byte_reader import ByteReader
from t2t_repro.formats.marian_binary import OPTIONS, read_binary, read_shortlist, write_binary

YAML = "dim-emb: 8\n"


@pytest.fixture(scope="module")
def tensors():
    random = np.random.default_rng(1)
    shapes = {"Wemb": (40, 8), "encoder_l1_self_Wq": (8, 12), "decoder_l1_rnn_bf": (1, 8)}
    drawn = {name: random.normal(size=shape) for name, shape in shapes.items()}
    return {name: values.astype(np.float32) for name, values in drawn.items()}


@pytest.fixture(scope="module")
def content(tensors, tmp_path_factory):
    path = tmp_path_factory.mktemp("binary") / "model.bin"
    write_binary(path, tensors, YAML)
    return path.read_bytes()


def test_matrices_are_rounded_to_8_bits_and_written_the_same_again(tensors, content, tmp_path):
    read = read_binary(content)
    assert read.pop(OPTIONS).tobytes() == YAML.encode() + b"\0"
    assert list(read) == sorted(tensors)
    for name, values in tensors.items():
        step = np.abs(values).max() / 127 if "W" in name else 0
        assert np.abs(read[name] - values).max() <= step / 2 * 1.001
    write_binary(tmp_path / "again.bin", read, YAML)
    again = read_binary((tmp_path / "again.bin").read_bytes())
    assert all(np.array_equal(again[name], values) for name, values in read.items())


def test_a_matrix_is_stored_transposed_and_a_table_is_not(content):
    """Each number of the header is taken from where the format has it."""
    version, count = struct.unpack_from("<QQ", content)
    assert (version, count, len(content) % 256) == (1, 4, len(YAML) + 1)
    heads = [struct.unpack_from("<4Q", content, 16 + 32 * n) for n in range(count)]
    assert [kind for _, kind, _, _ in heads] == [0x4101, 0x0404, 0x4101, 0x0101]
    place = len(content) - sum(size for *_, size in heads)
    assert place % 256 == 0
    read = read_binary(content)
    shapes = {"Wemb": (40, 8), "decoder_l1_rnn_bf": (), "encoder_l1_self_Wq": (12, 8)}
    for name, shape in shapes.items():
        size = heads.pop(0)[3]
        if shape:
            integers = np.frombuffer(content, np.int8, np.prod(shape), place).reshape(shape)
            (multiplier,) = struct.unpack_from("<f", content, place + integers.size)
            expected = integers.astype(np.float32) * (np.float32(1) / np.float32(multiplier))
            np.testing.assert_array_equal(read[name], expected if "Wemb" in name else expected.T)
        place += size


def test_a_name_without_bytes_is_damage():
    with pytest.raises(ValueError, match="NUL"):
        ByteReader(np.zeros(0, np.uint8)).read_name(0)


def test_damage_is_a_value_error_or_finite_weights_of_as_many_bytes(content):
    random = np.random.default_rng(2)
    refused = 0
    for number in range(300):
        damaged = bytearray(content[: random.integers(len(content)) if number % 5 == 0 else None])
        for place in random.integers(0, 500 if number % 2 else len(content), random.integers(1, 4)):
            if place < len(damaged):
                damaged[place] = random.choice([0, 1, 127, 255])
        try:
            read = read_binary(bytes(damaged))
        except ValueError:
            refused += 1
            continue
        assert sum(values.size for values in read.values()) <= len(content)
    assert refused > 100


# Of source ids that allow none, 5, 7 and 9, 4, and none; marian-dev's checksum is over all words
# after it.
SHORTLIST = bytes.fromhex(
    "f5173401d5481af1c30980fbc9ddaa490200000000000000020000000000000005000000000000000400000000000000"
    "0000000000000000000000000000000003000000000000000400000000000000040000000000000005000000070000"
    "000900000004000000"
)


def test_a_shortlist_has_the_ids_of_each_source_id():
    found = read_shortlist(SHORTLIST)
    assert found.always.tolist() == [0, 1]
    assert [found.of(one).tolist() for one in range(4)] == [[], [5, 7, 9], [4], []]


@pytest.mark.parametrize(
    "damaged", [b"", SHORTLIST[:-4], SHORTLIST[:16], SHORTLIST[:40] + b"x" * 68, b"x" * 100]
)
def test_a_damaged_shortlist_is_a_value_error(damaged):
    with pytest.raises(ValueError, match=r"shortlist|bytes"):
        read_shortlist(damaged)
