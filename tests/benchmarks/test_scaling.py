"""What is varied and what kept, and which points are called surprises."""

import pytest

from scaling import REFERENCE, VALUES, Cost, surprises, sweeps, table


def cost(seconds):
    return Cost(seconds=seconds, cpu_seconds=seconds, megabytes=30.0, fixed_megabytes=20.0)


def test_one_sweep_keeps_the_tokens_and_the_others_all_sizes_but_one():
    same_tokens, *others = sweeps(REFERENCE, VALUES).values()
    tokens = REFERENCE.length * REFERENCE.rows
    assert {case.length * case.rows for case in same_tokens.values()} == {tokens}
    for series in others:
        for case in series.values():
            assert sum(a != b for a, b in zip(case, REFERENCE, strict=True)) <= 1
    assert all(REFERENCE in series.values() for series in sweeps(REFERENCE, VALUES).values())


def test_operations_grow_as_rows_do_and_faster_than_length():
    once = REFERENCE.operations
    assert REFERENCE._replace(rows=2 * REFERENCE.rows).operations == pytest.approx(2 * once)
    assert REFERENCE._replace(length=2 * REFERENCE.length).operations > 2.001 * once


def test_surprises_are_points_below_half_the_best_rate():
    series = {rows: REFERENCE._replace(rows=rows) for rows in (1, 2, 4, 8)}
    # Operations are proportional to rows: rates as 1/4, 1/2.1, 1/1.9 and 1 of the best.
    seconds = {1: 4 / 8, 2: 2.1 * 2 / 8, 4: 1.9 * 4 / 8, 8: 1.0}
    costs = {case: cost(seconds[rows]) for rows, case in series.items()}
    assert surprises(series, costs) == [1, 2]


def test_table_says_memory_beyond_that_of_any_step():
    case = REFERENCE._replace(length=16, rows=32)
    (row,) = table({"rows": {32: case}}, {case: cost(2.0)}).splitlines()[2:]
    assert row.startswith("| rows | 32 | 2.000 |")
    # 10 MiB of 2 · 16 · 32 tokens.
    assert row.endswith("|  | 30 | 10 | 10.0 |")
