"""What a model directory records of its training."""

import json

import numpy as np
import pytest

from t2t_repro.files import write_json
from t2t_repro.runs.records import (
    Ancestor,
    differing_epoch,
    mean_target_length,
    read_ancestry,
    weights_hash,
    write_ancestry,
)

EPOCH = {
    "sentences": 100, "micro_batches": 2, "shapes": 3, "batches": 20, "source_tokens": 900,
    "target_tokens": 1250, "capacity": 2400, "corpora": {},
}  # fmt: skip
DAMAGED = ["{", "[]", '{"corpora": {"news": {}}, "ancestors": [{}]}']


@pytest.mark.parametrize(
    ("name", "value", "difference"),
    [
        ("micro_batches", 8, "2 micro-batches there, 8 now"),
        ("sentences", 90, "100 sentences there, 90 now"),
        ("corpora", {"news": {"sentences": 70}}, "60 sentences of news there, 70 now"),
    ],
)
def test_a_run_that_goes_on_with_another_epoch_says_so(tmp_path, name, value, difference):
    path = tmp_path / "epoch.json"
    assert differing_epoch(path, EPOCH) == []
    write_json(path, EPOCH | {"corpora": {"news": {"sentences": 60}}})
    assert differing_epoch(path, EPOCH) == []
    (found,) = differing_epoch(path, EPOCH | {name: value})
    assert difference in found


def test_an_older_epoch_json_is_the_same_epoch(tmp_path):
    path = tmp_path / "epoch.json"
    older = dict(EPOCH)
    del older["micro_batches"], older["capacity"]
    write_json(path, older)
    assert differing_epoch(path, EPOCH) == []


def test_the_mean_length_of_targets(tmp_path):
    path = tmp_path / "epoch.json"
    assert mean_target_length(path) is None
    write_json(path, EPOCH)
    assert mean_target_length(path) == 12.5


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_records_are_as_none(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert differing_epoch(path, EPOCH) == []
    assert mean_target_length(path) is None
    assert read_ancestry(path) == []


def test_ancestors_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "ancestry.json"
    assert read_ancestry(path) == []
    ancestors = [
        Ancestor("a", "best/step-1", "0" * 64, {"embedding/table": 3}, {"embedding/table": 0}),
        Ancestor("b", "averaged/step-9", "1" * 64, {}, {}),
    ]
    write_ancestry(path, ancestors)
    assert read_ancestry(path) == ancestors
    spoilt = json.loads(path.read_text())
    spoilt["ancestors"][1]["new_rows"] = {"a": "many"}
    write_json(path, spoilt)
    assert read_ancestry(path) == []


def test_the_hash_of_weights_is_of_names_shapes_and_values():
    one = {"a": np.ones([2, 3]), "b": np.zeros(2)}
    others = [
        {"a": np.ones([3, 2]), "b": np.zeros(2)},
        {"a": np.ones([2, 3]), "c": np.zeros(2)},
        {"a": np.ones([2, 3]), "b": np.ones(2)},
    ]
    assert weights_hash(one) == weights_hash(dict(reversed(one.items())))
    assert len({weights_hash(weights) for weights in [one, *others]}) == 4
