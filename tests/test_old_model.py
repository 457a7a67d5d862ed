"""A model trained by an earlier version, its text byte for byte: `tests/data/old_model`.

Trained on 7f3a2c3 by gin/quickstart.gin with smaller sizes, 6,000 pairs and 600 steps; its text is
what that version wrote.
"""

from pathlib import Path

import numpy as np
import pytest

from t2t_repro.text.characters import readable
from tests.commands import outcomes_of

HERE = Path(__file__).parent / "data" / "old_model"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("beam", []),
        ("n_best", ["--n_best=3", "--scores"]),
        ("sampled", ["--gin_param=Translator.search = @Sampling()"]),
    ],
)
def test_an_old_model_gives_the_same_text(tmp_path, name, options):
    source = (HERE / "source.txt").read_text(encoding="utf-8")
    command = ("translate", [f"--model_dir={HERE / 'model'}", *options], source)
    outcome = outcomes_of([command], tmp_path)[0]
    assert outcome.status == 0, outcome.err
    translations = outcome.out.replace("\tunfinished\n", "\n")
    # That version did not say what was cut off, and wrote bytes that make no character.
    expected = (HERE / f"{name}.txt").read_text(encoding="utf-8")
    ours = [line.split("\t") for line in translations.split("\n")]
    theirs = [line.split("\t") for line in map(readable, expected.split("\n"))]
    assert [fields[::2] for fields in ours] == [fields[::2] for fields in theirs]
    # A processor adds in its own order.
    scores, known = ([float(one[1]) for one in side if one[1:]] for side in (ours, theirs))
    np.testing.assert_allclose(scores, known, atol=2e-4)
