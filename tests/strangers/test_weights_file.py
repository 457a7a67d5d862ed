"""Files of weights: what they hold, and what they claim."""

import json
import os

import h5py
import ml_dtypes
import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.safetensors_file import write_safetensors
from t2t_repro.strangers.safetensors_file import SafetensorsFile
from t2t_repro.strangers.tf_weights_file import TFWeightsFile
from tests.formats.marian.marian_directory import write_h5

VALUES = np.array([[1.5, -2.25, 3e-5], [0.0, 1024.0, -0.125]], np.float32)


def write(path, header, data=b"", length=None):
    described = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(described) if length is None else length
    path.write_bytes(length.to_bytes(8, "little") + described + data)


def entry(dtype="F32", shape=(2, 3), begin=0, end=24, **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


@pytest.mark.parametrize(
    ("dtype", "kind"), [("F32", "<f4"), ("F16", "<f2"), ("BF16", ml_dtypes.bfloat16)]
)
def test_numbers_become_float32(dtype, kind, tmp_path):
    stored = VALUES.astype(kind)
    header = {"a.b": entry(dtype, end=stored.nbytes), "__metadata__": {"format": "pt"}}
    write(tmp_path / "x", header, stored.tobytes())
    file = SafetensorsFile(tmp_path / "x")
    assert file.shapes == {"a.b": (2, 3)}
    found = file.read("a.b")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, stored.astype(np.float32))


def test_what_is_written_is_read(tmp_path):
    tensors = {"b": VALUES, "a": VALUES.T, "": np.full([], 3.0, np.float32), "no": VALUES[:0]}
    write_safetensors(tmp_path / "x", tensors)
    file = SafetensorsFile(tmp_path / "x")
    assert file.shapes == {name: value.shape for name, value in tensors.items()}
    for name, value in tensors.items():
        np.testing.assert_array_equal(file.read(name), value)
    assert int.from_bytes((tmp_path / "x").read_bytes()[:8], "little") % 8 == 0


DATA = VALUES.tobytes()
BAD = {
    "terabytes": ({"a": entry(shape=[2**40], end=2**42)}, DATA, None, r"\[0, 4398046511104\]"),
    "a header of terabytes": ({"a": entry()}, DATA, 2**42, "header claims 4,398,046,511,104 b"),
    "truncated": ({"a": entry()}, DATA[:-1], None, "its header tells of"),
    "more": ({"a": entry()}, DATA + b"x", None, "its header tells of"),
    "overlap": (
        {"a": entry(), "b": entry(begin=12, end=36)}, DATA * 2, None,
        "'b' begins at byte 12, expected 24",
    ),
    "gap": ({"a": entry(begin=24, end=48)}, DATA * 2, None, "begins at byte 24, expected 0"),
    "backwards": ({"a": entry(begin=24, end=0)}, DATA, None, r"does not lie at \[24, 0\]"),
    "other size": ({"a": entry(shape=[2, 2])}, DATA, None, r"F32 \[2, 2\] does not lie at"),
    "negative": ({"a": entry(shape=[-2, -3])}, DATA, None, r"has the shape \[-2, -3\]"),
    "ranks": ({"a": entry(shape=[1] * 9)}, DATA, None, "has the shape"),
    "true": ({"a": entry(shape=[True, 6])}, DATA, None, r"has the shape \[True, 6\]"),
    "integers": ({"a": entry("I32")}, DATA, None, "has the type 'I32'"),
    "a list for a type": ({"a": entry(["F32"])}, DATA, None, r"has the type \['F32'\]"),
    "more of a tensor": ({"a": entry(code="x")}, DATA, None, "'a' is not described as a tensor"),
    "a list": ([1], b"", None, "its header is no table of tensors"),
    "no JSON": (b"{", b"", None, "Expecting"),
    "no UTF-8": (b"\xff", b"", None, "codec"),
    "nested": (b"[" * 100_000, b"", None, "recursion"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_header_that_claims_what_is_not_true(kind, tmp_path):
    header, data, length, message = BAD[kind]
    write(tmp_path / "x", header, data, length)
    with pytest.raises(UserError, match=rf"x cannot be used \(.*{message}.*\), expected a file of"):
        SafetensorsFile(tmp_path / "x")


@pytest.mark.parametrize("kind", [SafetensorsFile, TFWeightsFile])
def test_what_is_no_file_of_weights(kind, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("weights, weights, weights")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2**34)
    for name in ("empty", "text", "pipe", "sparse", "missing"):
        with pytest.raises(UserError, match=f"{name} cannot be used"):
            kind(tmp_path / name)


def test_a_file_that_gets_shorter_while_it_is_read(tmp_path):
    path = tmp_path / "x"
    write_safetensors(path, {"a": VALUES})
    file = SafetensorsFile(path)
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(UserError, match="it ends 4 bytes early"):
        file.read("a")


def test_kernels_of_h5_are_turned_and_float16_may_be(tmp_path):
    path = tmp_path / "x"
    name = "model.encoder.layers.0.fc1.weight"
    write_h5(path, {name: VALUES.astype(np.float16), "final_logits_bias": VALUES})
    file = TFWeightsFile(path)
    assert file.shapes == {name: (2, 3), "final_logits_bias": (2, 3)}
    np.testing.assert_array_equal(file.read(name), VALUES.astype(np.float16).astype(np.float32))
    os.truncate(path, path.stat().st_size - 100)
    with pytest.raises(UserError, match="x cannot be used"):
        TFWeightsFile(path)


def test_groups_of_h5_that_hold_each_other_many_times(tmp_path):
    path = tmp_path / "x"
    with h5py.File(path, "w") as file:
        within = file.create_group("last")
        for n in range(10):
            group = file.create_group(str(n))
            for link in range(10):
                group[str(link)] = within
            within = group
    with pytest.raises(UserError, match="more than 20,000 tensors and groups"):
        TFWeightsFile(path)
