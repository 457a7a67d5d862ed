"""The tables of the results: any benchmark's lines, whoever wrote them."""

import json
import subprocess
import sys

import pytest

from report import tables
from tests.processes import CHECKOUT


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


def test_the_rate_and_the_dates_are_those_of_what_counts():
    common = {"benchmark": "training", "case": "base", "unit": "tokens/s", "value": 1}
    lines = [
        {**common, "peer": "ours", "matmul_gflops": 100.0, "date": "2026-11-20"},
        {**common, "peer": "ours", "matmul_gflops": 210.0, "date": "2026-11-21"},
        {**common, "peer": "theirs", "matmul_gflops": 190.0, "date": "2026-11-22"},
    ]
    said = "Matrix products, GFLOP/s: base 200. 2026-11-21 to 2026-11-22 UTC."
    assert tables(lines).splitlines()[-1] == said


ROW = {"benchmark": "b", "case": "c", "value": 1, "unit": "u"}


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ('{"benchmark": "b", "ca\n', 0, "line 2 of {} is no JSON: "),
        (
            '{"toolkit": "ours"}\n',
            1,
            "error: line 2 of {} lacks one of benchmark, case, value, unit",
        ),
        ("5\n", 1, "error: line 2 of {} lacks one of benchmark, case, value, unit"),
    ],
)
def test_half_a_line_is_passed_over_and_what_is_no_result_is_said(tmp_path, text, status, said):
    results = tmp_path / "results.jsonl"
    results.write_text(f"{json.dumps(ROW)}\n{text}")
    command = [sys.executable, CHECKOUT / "benchmarks" / "report.py", results]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status
    (line,) = done.stderr.splitlines()
    assert line.startswith(said.format(results))
    assert ("| c | 1 |" in done.stdout) == (status == 0)
