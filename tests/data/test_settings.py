import re

import pytest

from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora import GeneratedCorpus, Multi30kCorpus, TfdsCorpus, TreebankCorpus
from t2t_repro.data.settings import check_setting
from t2t_repro.data.subwords import SubwordTraining
from t2t_repro.errors import UserError


@pytest.mark.parametrize(
    ("value", "kind", "range_", "message"),
    [
        (0, int, [1], "a.b = 0: expected at least 1, a whole number"),
        (1.0, int, [1], "a.b = 1.0: expected at least 1, a whole number"),
        (True, int, [], "a.b = True: expected a whole number"),
        ("8000", int, [], "a.b = '8000': expected a whole number"),
        (2, float, [0, 1], "a.b = 2: expected at least 0 and at most 1, a number"),
        (float("nan"), float, [1], "a.b = nan: expected at least 1, a number"),
        (False, float, [], "a.b = False: expected a number"),
        (1, bool, [], "a.b = 1: expected True or False"),
        (None, str, [], "a.b = None: expected a string"),
        (3, str | None, [], "a.b = 3: expected a string or None"),
        (Cleaning, Cleaning, [], f"a.b = {Cleaning!r}: expected @Cleaning()"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(value, kind, range_, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        check_setting("a.b", value, kind, *range_)


def test_what_fits_is_taken():
    for value, kind, *range_ in (
        (1, int, 1), (1, float, 1, 1), (0.5, float, 0, 1), (-7, int), (False, bool), ("", str),
        (None, str | None), ("x", str | None), (None, int | None), (Cleaning(), Cleaning),
    ):  # fmt: skip
        check_setting("a.b", value, kind, *range_)


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        (Cleaning, "max_words", "x"),
        (Cleaning, "max_words", 2.5),
        (Cleaning, "max_length_ratio", None),
        (Cleaning, "drop_held_out", "no"),
        (SubwordTraining, "vocab_size", "8000"),
        (SubwordTraining, "vocab_size", 0),
        (SubwordTraining, "sample_size", -1),
        (SubwordTraining, "seed", 1.5),
        (SubwordTraining, "character_coverage", 1.1),
        (SubwordTraining, "split_digits", 1),
        (SubwordTraining, "normalization", ["identity"]),
        (GeneratedCorpus, "seed", "x"),
        (GeneratedCorpus, "train_size", 1e5),
        (Multi30kCorpus, "local_dir", ("a",)),
        (Multi30kCorpus, "pretokenized", "yes"),
        (TfdsCorpus, "name", None),
        (TfdsCorpus, "test_split", 3),
        (TfdsCorpus, "data_dir", 3),
        (TreebankCorpus, "folder", None),
    ],
)
def test_a_wrong_value_is_named_where_it_is_bound(made, name, value):
    given = {"train": "a", "dev": "b"} if made is TreebankCorpus else {}
    message = re.escape(f"{made.__name__}.{name} = {value!r}: expected")
    with pytest.raises(UserError, match=message):
        made(**given, **{name: value})
