"""A long stage says how far it is; spans of time are in words."""

import pytest

from t2t_repro import progress
from t2t_repro.progress import Progress, in_words


def test_lines_come_every_30_seconds_with_count_rate_and_what_remains(monkeypatch, caplog):
    clock = iter([0.0, 10.0, 40.0, 45.0, 80.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level("INFO", logger="absl")
    with Progress("encoding", done=1000, total=9000) as shown:
        for _ in range(4):
            shown.advance(1000)
    assert [record.getMessage() for record in caplog.records] == [
        "encoding: going on after 1,000 pairs",
        "encoding: 3,000 pairs, 50 pairs/s, 2 min left",
        "encoding: 5,000 pairs, 50 pairs/s, 2 min left",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (59.9, "under a minute"),
        (3599, "1 h"),
        (3 * 3600 + 19.5 * 60, "3 h 20 min"),
        (53 * 3600, "2 days 5 h"),
    ],
)
def test_spans_of_time_are_rounded_up(seconds, words):
    assert in_words(seconds) == words
