"""The tables of the results: any benchmark's lines, whoever wrote them."""

from report import tables


def test_peers_are_rows_and_cases_columns():
    common = {"benchmark": "training", "unit": "target tokens/s", "min": 400, "max": 500}
    lines = [
        {**common, "case": "base float32", "peer": "ours", "value": 450, "share_of_matmul": 0.7},
        {**common, "case": "tiny float32", "peer": "theirs", "value": 6275.4},
    ]
    assert "| ours | 450 (400–500), 70% | – |" in tables(lines)
    assert "| theirs | – | 6,275 (400–500) |" in tables(lines)


def test_lines_without_peers_are_a_list():
    lines = [{"benchmark": "input", "case": "plan", "value": 3.21, "unit": "s"}]
    assert tables(lines) == "### input, s\n\n| case | s |\n| --- | ---: |\n| plan | 3.21 |\n"


def test_the_last_of_two_measurements_counts():
    lines = [{"benchmark": "input", "case": "plan", "value": v, "unit": "s"} for v in (1, 2)]
    assert "| plan | 2 |" in tables(lines)
    assert "| plan | 1 |" not in tables(lines)
