"""docs/extending.md: its examples run as they stand."""

import json
import re

import pytest

from tests.extending import PAGE, check, examples, together, walk, write

pytestmark = pytest.mark.long

PARTS = examples()


def test_each_example_is_there():
    assert len(PARTS) >= 11
    assert not PARTS[0].gin.startswith("include")
    for part in PARTS[1:]:
        assert part.gin.startswith("include 'reversal.gin'\n"), part.title
        assert all(f"import {name[:-3]}\n" in part.gin for name in part.modules)
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert re.findall(r"^- \[(.*?)\]", text, re.MULTILINE) == headings


def test_all_parts_together_train_resume_average_translate_and_serve(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    gin_file = write(together(PARTS), tmp_path / "mine")
    outcomes = walk(gin_file, tmp_path)
    check(outcomes, tmp_path, is_served_alike=True)
    whole, _, _, _, evaluated, _ = outcomes
    assert "digit accuracy" in whole.err
    assert "digit accuracy" in evaluated.out
    told = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert {"loss", "val_nll", "val_digit_accuracy"} <= told[-1].keys()
    config = json.loads((tmp_path / "model" / "model.json").read_text())
    assert config["tied_embeddings"] == "target_softmax"
    assert (config["source_vocab_size"], config["vocab_size"]) == (275, 280)
    for name in ("source_subwords.model", "target_subwords.model"):
        assert (tmp_path / "model" / name).is_file()
    assert config["config"]["norm"] == "my_norm>ScaleNorm"
    assert config["config"]["activation"] == "my_activation>squared_relu"
