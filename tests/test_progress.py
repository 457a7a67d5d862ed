"""A long stage says how far it is."""

from t2t_repro import progress
from t2t_repro.progress import Progress


def test_lines_come_every_30_seconds_with_count_rate_and_what_remains(monkeypatch, caplog):
    clock = iter([0.0, 10.0, 40.0, 45.0, 80.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level("INFO", logger="absl")
    with Progress("encoding", done=1000, total=9000) as shown:
        for _ in range(4):
            shown.advance(1000)
    assert [record.getMessage() for record in caplog.records] == [
        "encoding: going on after 1,000 pairs",
        "encoding: 3,000 pairs, 50 pairs/s, 0:02:00 left",
        "encoding: 5,000 pairs, 50 pairs/s, 0:01:20 left",
    ]
