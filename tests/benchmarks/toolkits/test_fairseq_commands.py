"""What fairseq is asked, and what is read out of what it says."""

import itertools
import json
import math

import pytest

import multi30k_fairseq
from toolkits.fairseq_commands import (
    patience_so_far,
    preprocess,
    read_translations,
    training_facts,
    training_options,
)


def _epoch(number, dev_loss, seconds=360):
    """Returns what fairseq logs at an epoch's end."""
    valid = {"epoch": number, "valid_loss": str(dev_loss), "valid_nll_loss": str(dev_loss - 1)}
    train = {
        "epoch": number,
        "train_num_updates": str(62 * number),
        "train_wpb": "6927.5",
        "train_train_wall": str(seconds),
    }
    rows = [
        f"2026-11-22 16:16:01 | INFO | {tag} | {json.dumps(row)}"
        for tag, row in (("valid", valid), ("train_inner", train | {"epoch": 99}), ("train", train))
    ]
    return "".join(f"{row}\n" for row in rows)


# As fairseq's does with what a call left that was killed.
PREPROCESS = """#!/bin/sh
while [ "$1" != --destdir ]; do shift; done
if [ -e "$2/dict.en.txt" ]; then exit 1; fi
mkdir -p "$2"
touch "$2/dict.en.txt"
"""


def test_ids_are_made_again_where_a_call_was_killed(tmp_path):
    python = tmp_path / "python"
    python.write_text(PREPROCESS)
    python.chmod(0o755)
    for _ in range(2):
        preprocess(python, {"train": [tmp_path / "train"]}, ("en", "de"), tmp_path / "binary")
    assert (tmp_path / "binary" / "dict.en.txt").is_file()


def test_a_recipe_becomes_options_for_both_stacks():
    options = training_options(multi30k_fairseq.RECIPE)
    given = dict(itertools.pairwise(options))
    for side in ("encoder", "decoder"):
        assert given[f"--{side}-embed-dim"] == "128"
        assert given[f"--{side}-ffn-embed-dim"] == "256"
        assert given[f"--{side}-layers"] == given[f"--{side}-attention-heads"] == "4"
    assert given["--lr"] == "0.005"
    assert given["--max-update"] == "8000"


@pytest.mark.parametrize(
    ("losses", "expected"),
    [([], (math.inf, 0)), ([5.0, 4.0], (4.0, 0)), ([5.0, 4.0, 4.0, 4.5], (4.0, 2))],
)
def test_patience_counts_epochs_since_the_best(losses, expected):
    log = "".join(_epoch(number, loss) for number, loss in enumerate(losses, 1))
    assert patience_so_far(log, len(losses)) == expected


def test_patience_knows_epochs_with_a_checkpoint_alone():
    """The third was killed before its checkpoint was written, and is trained again."""
    log = _epoch(1, 5.0) + _epoch(2, 4.0) + _epoch(3, 3.0)
    assert patience_so_far(log, 2) == (4.0, 0)


def test_facts_are_of_every_epoch_once():
    log = _epoch(1, 5.0) + _epoch(2, 4.0, seconds=9) + _epoch(2, 4.0) + _epoch(3, 4.5)
    assert training_facts(log) == {
        "updates": 186,
        "epochs": 3,
        "target_tokens_per_update": 6928,
        "target_tokens_per_second": 1193,
        "training_hours": 0.3,
    }


def test_translations_are_put_in_the_order_of_the_text():
    log = (
        "S-1\ta b\nT-1\tx y\nH-1\t-0.25\tx y\nD-1\t-0.25\tx y\nP-1\t-0.1 -0.4\n"
        "S-0\tc\nT-0\tz\nH-0\t-1.5\t\nD-0\t-1.5\t\nP-0\t-1.5\n"
        "2026-11-22 | INFO | fairseq_cli.generate | Translated 2 sentences\n"
        "Generate test with beam=5: BLEU4 = 41.02, 71.0/47.5/34.3/24.5 (BP=0.999)\n"
    )
    assert read_translations(log) == {"translations": ["", "x y"], "own_bleu": 41.02}
