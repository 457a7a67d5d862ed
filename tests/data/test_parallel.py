"""Blocks on several cores: in order, a few at a time, and no process outlives its parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from t2t_repro.data.parallel import map_in_order, usable_cores
from t2t_repro.errors import UserError


def late_if_even(number):
    time.sleep(0.05 * (number % 2 == 0))
    return number, os.getpid()


def refuse_seven(number):
    if number == 7:
        raise UserError("seven")
    return number


def die_at_seven(number):
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def has_imported_tensorflow(number):
    return "tensorflow" in sys.modules


@pytest.mark.parametrize("count", [3, None])
def test_all_cores_are_usable_where_no_affinity_is_known(count, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_cores() == (count or 1)


def test_results_come_in_order_from_other_processes():
    results = list(map_in_order(late_if_even, range(12), 2, "prepare.workers"))
    assert [number for number, _ in results] == list(range(12))
    assert os.getpid() not in {process for _, process in results}


@pytest.mark.parametrize(("count", "workers"), [(4, 2), (12, 1), (0, 2)])
def test_few_blocks_or_one_worker_need_no_other_process(count, workers):
    results = list(map_in_order(late_if_even, range(count), workers, "prepare.workers"))
    assert results == [(number, os.getpid()) for number in range(count)]


def test_blocks_are_read_a_few_ahead_only():
    blocks = iter(range(8, 1000))
    results = map_in_order(refuse_seven, blocks, 2, "prepare.workers")
    assert next(results) == 8
    assert next(blocks) < 18


@pytest.mark.parametrize(
    ("function", "error"),
    [(refuse_seven, UserError("seven")), (die_at_seven, UserError(r"prepare\.workers"))],
)
def test_errors_of_a_worker_reach_the_caller(function, error):
    with pytest.raises(type(error), match=str(error)):
        list(map_in_order(function, range(1000), 2, "prepare.workers"))


def test_workers_do_not_import_tensorflow():
    import tensorflow  # noqa: F401

    assert not any(map_in_order(has_imported_tensorflow, range(6), 2, ""))


def test_workers_end_with_a_process_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.data.test_parallel import late_if_even\n"
        "from t2t_repro.data.parallel import map_in_order\n"
        "if __name__ == '__main__':\n"
        "    for _, process in map_in_order(late_if_even, iter(int, 1), 2, ''):\n"
        "        print(process, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=environment) as run:
        assert run.stdout is not None
        workers = {int(run.stdout.readline()) for _ in range(20)}
        run.kill()
    deadline = time.monotonic() + 60
    while any(map(_runs, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
