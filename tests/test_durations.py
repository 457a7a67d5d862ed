import pytest

from t2t_repro.durations import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "under a minute"),
        (59.9, "under a minute"),
        (60, "1 min"),
        (61, "2 min"),
        (7 * 60, "7 min"),
        (3599, "1 h"),
        (3 * 3600 + 19.5 * 60, "3 h 20 min"),
        (24 * 3600, "1 day"),
        (53 * 3600, "2 days 5 h"),
    ],
)
def test_nobody_misreads_it(seconds, words):
    assert in_words(seconds) == words
