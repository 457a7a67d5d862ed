import re

import pytest

from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora import GeneratedCorpus
from t2t_repro.data.subwords import SubwordTraining
from t2t_repro.errors import UserError
from t2t_repro.ranges import check_count, check_range


@pytest.mark.parametrize(
    ("value", "range_", "message"),
    [
        (0, [1], "a.b = 0: expected at least 1"),
        ("8000", [1], "a.b = '8000': expected at least 1"),
        (2, [0, 1], "a.b = 2: expected at least 0 and at most 1"),
        (float("nan"), [1], "a.b = nan: expected at least 1"),
    ],
)
def test_a_number_out_of_its_range_is_one_line(value, range_, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        check_range("a.b", value, *range_)


@pytest.mark.parametrize("value", [1.5, "2", None, True, float("nan")])
def test_what_is_no_whole_number_is_one_line(value):
    with pytest.raises(UserError, match=f"^a.b = {value!r}: expected an integer, at least 1$"):
        check_count("a.b", value)


def test_the_ends_of_a_range_are_in_it():
    for value in (0, 0.5, 1):
        check_range("a.b", value, 0, 1)


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        (Cleaning, "max_words", "x"),
        (Cleaning, "max_length_ratio", 0),
        (SubwordTraining, "vocab_size", "8000"),
        (SubwordTraining, "vocab_size", 0),
        (SubwordTraining, "sample_size", -1),
        (SubwordTraining, "character_coverage", 1.1),
        (SubwordTraining, "normalization", ["identity"]),
        (GeneratedCorpus, "train_size", -1),
    ],
)
def test_a_wrong_value_is_named_where_it_is_bound(made, name, value):
    message = re.escape(f"{made.__name__}.{name} = {value!r}: expected")
    with pytest.raises(UserError, match=message):
        made(**{name: value})
