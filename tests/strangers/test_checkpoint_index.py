import json
import os

import pytest
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

from t2t_repro.errors import UserError
from t2t_repro.strangers.checkpoint_index import _entries, check_index, listed_checkpoints
from tests.fuzz.bundle_index import write_index
from tests.training.tiny import tiny_directory

TABLE = b"model/embedding/table/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture
def directory(tmp_path):
    """A model directory."""
    return tiny_directory(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dims", [-5, 3]),  # TensorFlow aborts.
        ("dims", [2**40, 2**40]),  # Likewise.
        ("dims", [1] * 255),  # Likewise.
        ("dims", [10**6, 10**6]),  # TensorFlow waits ten seconds for the memory.
        ("dtype", 0),  # TensorFlow aborts.
        ("dtype", 21),
        ("offset", 2**62),
        ("size", -4),
        ("shard_id", 7),
    ],
)
def test_an_index_that_claims_what_is_not_there(directory, field, value):
    index = directory.path / "checkpoints" / "step-5.index"
    entries = dict(_entries(index.read_bytes()))
    assert write_index(sorted(entries.items()))
    entry = BundleEntryProto.FromString(entries[TABLE])
    if field == "dims":
        del entry.shape.dim[:]
        for size in value:
            entry.shape.dim.add(size=size)
    else:
        setattr(entry, field, value)
    check_index(index.with_suffix(""))
    index.write_bytes(write_index(sorted((entries | {TABLE: entry.SerializeToString()}).items())))
    with pytest.raises(UserError, match=r"step-5\.index is not the index of a whole checkpoint"):
        check_index(index.with_suffix(""))
    with pytest.raises(UserError, match=r"step-5\.index is not the index of a whole checkpoint"):
        directory.load_model()


def spoil(index, change):
    """Changes the entries of an index, by name."""
    entries = dict(_entries(index.read_bytes()))
    found = {name: BundleEntryProto.FromString(entry) for name, entry in entries.items() if name}
    change({name.decode(): entry for name, entry in found.items()})
    entries |= {name: entry.SerializeToString() for name, entry in found.items()}
    index.write_bytes(write_index(sorted(entries.items())))


def claim(directory, rows):
    """Has model.json and the index claim so many rows, and the data file their bytes."""
    index = directory.path / "checkpoints" / "step-5.index"
    data = index.with_suffix(".data-00000-of-00001")

    def change(entries):
        entry = entries[TABLE.decode()]
        entry.shape.dim[0].size = rows
        entry.offset, entry.size = data.stat().st_size, rows * 8 * 4

    spoil(index, change)
    os.truncate(data, data.stat().st_size + rows * 8 * 4)
    sizes = json.loads(directory.model_json.read_text()) | {"vocab_size": rows}
    directory.model_json.write_text(json.dumps(sizes))


def test_a_data_file_that_is_a_hole(directory):
    """Copied from a stranger, it takes no room on the disk, and 3 GB of memory."""
    claim(directory, 10**7)
    with pytest.raises(UserError, match=r"have 320,0\d\d,\d{3} bytes, of .* were ever written"):
        directory.load_model()


def test_a_data_file_that_was_written_is_believed(directory):
    claim(directory, 10**5)
    prefix = directory.path / "checkpoints" / "step-5"
    data = prefix.with_suffix(".data-00000-of-00001")
    content = data.read_bytes()
    with pytest.raises(UserError, match="were ever written"):
        check_index(prefix)
    data.unlink()
    data.write_bytes(content)
    assert check_index(prefix)[TABLE.decode()] == (10**5, 8)


def test_variables_that_share_their_bytes(directory):
    index = directory.path / "checkpoints" / "step-5.index"

    def change(entries):
        for name, entry in entries.items():
            if name.endswith("_kernel/.ATTRIBUTES/VARIABLE_VALUE"):
                entry.offset, entry.size = 0, 4 * 32 * 8
                entry.shape.dim[0].size, entry.shape.dim[1].size = 32, 8

    spoil(index, change)
    with pytest.raises(UserError, match=r"its variables have [\d,]+ bytes, .* has [\d,]+\)"):
        check_index(index.with_suffix(""))


def test_strings_as_long_as_a_disk(directory):
    index = directory.path / "checkpoints" / "step-5.index"
    os.truncate(index.with_suffix(".data-00000-of-00001"), 10**11)
    spoil(index, lambda entries: setattr(entries["_CHECKPOINTABLE_OBJECT_GRAPH"], "size", 10**10))
    with pytest.raises(UserError, match="has strings of 10,000,000,000 bytes"):
        check_index(index.with_suffix(""))


def test_an_index_that_is_written_here_is_one_for_tensorflow(directory):
    index = directory.path / "checkpoints" / "step-5.index"
    index.write_bytes(write_index(sorted(_entries(index.read_bytes()))))
    check_index(index.with_suffix(""))
    assert directory.load_model().vocab_size == 40


@pytest.mark.parametrize("place", [0, -1])
def test_an_index_that_says_two_things_of_a_variable(directory, place):
    """TensorFlow takes the first."""
    index = directory.path / "checkpoints" / "step-5.index"
    entries = sorted(_entries(index.read_bytes()))
    name, entry = entries[place]
    for spoilt in ([(name, b""), (name, entry)], [(name, entry), (b"", b"")]):
        index.write_bytes(write_index([*entries[:place], *spoilt, *entries[place:][1:]]))
        with pytest.raises(UserError, match=r"\(its names are not in order\)"):
            check_index(index.with_suffix(""))


def test_an_index_that_has_a_reader_begin_within_an_entry(directory):
    """What it would find there, nobody has looked at."""
    index = directory.path / "checkpoints" / "step-5.index"
    entries = sorted(_entries(index.read_bytes()))
    index.write_bytes(write_index(entries, more_restarts=[1]))
    with pytest.raises(UserError, match=r"\(a block has entries within others\)"):
        check_index(index.with_suffix(""))


def test_a_list_of_checkpoints_does_not_lead_out_of_its_folder(directory):
    folder = directory.path / "checkpoints"
    (folder / "checkpoint").write_text('model_checkpoint_path: "/etc/step-9"\n')
    assert listed_checkpoints(folder) == ["step-9"]
    with pytest.raises(UserError, match=f"^{folder}/step-9.index is missing"):
        directory.checkpoint()
