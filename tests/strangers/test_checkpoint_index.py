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


def test_an_index_that_is_written_here_is_one_for_tensorflow(directory):
    index = directory.path / "checkpoints" / "step-5.index"
    index.write_bytes(write_index(sorted(_entries(index.read_bytes()))))
    check_index(index.with_suffix(""))
    assert directory.load_model().vocab_size == 40


def test_a_list_of_checkpoints_does_not_lead_out_of_its_folder(directory):
    folder = directory.path / "checkpoints"
    (folder / "checkpoint").write_text('model_checkpoint_path: "/etc/step-9"\n')
    assert listed_checkpoints(folder) == ["step-9"]
    with pytest.raises(UserError, match=f"^{folder}/step-9.index is missing"):
        directory.checkpoint()
