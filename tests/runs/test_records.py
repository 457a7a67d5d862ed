"""What a model directory records of its training."""

import numpy as np
import pytest

from t2t_repro.errors import UserError
from t2t_repro.files import write_json
from t2t_repro.runs import records
from t2t_repro.runs.records import Ancestor

EPOCH = {
    "sentences": 100, "micro_batches": 2, "shapes": 3, "batches": 20, "source_tokens": 900,
    "target_tokens": 1250, "capacity": 2400, "corpora": {},
}  # fmt: skip


def test_a_run_that_goes_on_with_another_epoch_says_so(tmp_path):
    """Of an older version's epoch, only what it counted is compared."""
    path = tmp_path / "epoch.json"
    assert records.differing_epoch(path, EPOCH) == []
    older = dict(EPOCH)
    del older["micro_batches"], older["capacity"]
    for before, differing in ((EPOCH, [True]), (older, [])):
        write_json(path, before)
        assert records.differing_epoch(path, EPOCH) == []
        lines = records.differing_epoch(path, EPOCH | {"micro_batches": 8})
        assert ["2 micro-batches there, 8 now" in line for line in lines] == differing


def test_the_mean_length_of_targets(tmp_path):
    path = tmp_path / "epoch.json"
    assert records.mean_target_length(path) is None
    write_json(path, EPOCH)
    assert records.mean_target_length(path) == 12.5


def test_ancestors_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "ancestry.json"
    assert records.read_ancestry(path) == []
    ancestors = [
        Ancestor("a", "best/step-1", "0" * 64, {"embedding/table": 3}, {"embedding/table": 0}),
        Ancestor("b", "averaged/step-9", "1" * 64, {}, {}),
    ]
    records.write_ancestry(path, ancestors)
    assert records.read_ancestry(path) == ancestors


def test_half_a_file_is_named_and_no_split(tmp_path):
    for name in ("epoch.json", ".dev.partial.json"):
        (tmp_path / name).write_text("{")
    with pytest.raises(UserError, match=r"epoch\.json"):
        records.mean_target_length(tmp_path / "epoch.json")
    (tmp_path / "epoch.json").unlink()
    assert records.read_scores(tmp_path) == {}


def test_the_hash_of_weights_is_of_names_shapes_and_values():
    one = {"a": np.ones([2, 3]), "b": np.zeros(2)}
    others = [
        {"a": np.ones([3, 2]), "b": np.zeros(2)},
        {"a": np.ones([2, 3]), "c": np.zeros(2)},
        {"a": np.ones([2, 3]), "b": np.ones(2)},
    ]
    assert records.weights_hash(one) == records.weights_hash(dict(reversed(one.items())))
    assert len({records.weights_hash(weights) for weights in [one, *others]}) == 4
