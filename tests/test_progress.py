"""What is seen of a long stage where there is no terminal."""

from t2t_repro import progress
from t2t_repro.progress import Progress


def test_lines_come_now_and_then_with_count_rate_and_what_remains(monkeypatch, caplog):
    clock = iter([0.0, 10.0, 40.0, 45.0, 80.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level("INFO", logger="absl")
    with Progress("data: train: encoding", done=1000, total=9000) as shown:
        for _ in range(4):
            shown.advance(1000)
    assert [record.getMessage() for record in caplog.records] == [
        "data: train: encoding: going on after 1,000 pairs",
        "data: train: encoding: 3,000 pairs, 50 pairs/s, 2 min left",
        "data: train: encoding: 5,000 pairs, 50 pairs/s, 2 min left",
    ]


def test_what_remains_is_left_out_where_it_is_not_known(monkeypatch, caplog):
    clock = iter([0.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level("INFO", logger="absl")
    with Progress("data: train: cleaning") as shown:
        shown.advance(2000)
    assert caplog.records[0].getMessage() == "data: train: cleaning: 2,000 pairs, 50 pairs/s"
