"""Blocks on several cores: in order, few at a time, and nothing outlives the process."""

import os
import signal
import subprocess
import sys
import time
import traceback
from concurrent.futures.process import BrokenProcessPool

import pytest

from t2t_repro.data.parallel import map_in_order
from t2t_repro.errors import Unfinished, UserError
from tests.processes import CHECKOUT, interruptible


def late_if_even(number):
    time.sleep(0.05 * (number % 2 == 0))
    return number, os.getpid()


def refuse_seven(number):
    if number == 7:
        raise UserError("seven")
    return number


def add_to_seven(number):
    return number + "one" if number == 7 else number


class Unreadable(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def raise_the_unreadable(number):
    raise Unreadable(number, number)


def fail_with_a_note(number):
    error = KeyError("seven")
    error.add_note("It happened in a test.")
    raise error


def die_at_seven(number):
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def tensorflow_is_imported(number):
    return "tensorflow" in sys.modules


def test_results_come_in_order_from_other_processes():
    results = list(map_in_order(late_if_even, range(12), workers=2))
    assert [number for number, _ in results] == list(range(12))
    assert os.getpid() not in {process for _, process in results}


@pytest.mark.parametrize(("count", "workers"), [(4, 2), (12, 1), (0, 2)])
def test_few_blocks_or_one_worker_need_no_other_process(count, workers):
    results = list(map_in_order(late_if_even, range(count), workers))
    assert results == [(number, os.getpid()) for number in range(count)]


def test_blocks_are_read_a_few_ahead_only():
    blocks = iter(range(8, 1000))
    results = map_in_order(refuse_seven, blocks, workers=2)
    assert next(results) == 8
    assert next(blocks) < 18


def test_an_error_of_the_function_is_the_callers():
    results = map_in_order(refuse_seven, range(1000), workers=2)
    with pytest.raises(UserError, match="seven"):
        list(results)


def test_a_bug_of_the_function_keeps_its_traceback_and_its_notes():
    with pytest.raises(KeyError) as caught:
        list(map_in_order(fail_with_a_note, range(12), workers=2))
    text = "".join(traceback.format_exception(caught.value))
    assert "in fail_with_a_note" in text
    assert "It happened in a test." in caught.value.__notes__


def test_a_killed_worker_is_an_error_that_says_how_to_go_on():
    with pytest.raises(Unfinished, match=r"prepare\.workers"):
        list(map_in_order(die_at_seven, range(1000), workers=2))


def test_a_bug_in_a_worker_says_its_line():
    with pytest.raises(TypeError) as caught:
        list(map_in_order(add_to_seven, range(1000), workers=2))
    assert f'File "{__file__}", line ' in caught.value.__notes__[0]
    assert 'return number + "one" if number == 7' in caught.value.__notes__[0]


def test_an_error_that_cannot_be_sent_is_not_taken_for_a_kill():
    with pytest.raises(BrokenProcessPool) as caught:
        list(map_in_order(raise_the_unreadable, range(1000), workers=2))
    assert "Unreadable.__init__() missing 1 required" in caught.value.__notes__[0]


def test_workers_do_not_import_tensorflow():
    import tensorflow  # noqa: F401

    assert not any(map_in_order(tensorflow_is_imported, range(6), workers=2))


def test_workers_end_with_a_process_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from tests.data.test_parallel import late_if_even\n"
        "from t2t_repro.data.parallel import map_in_order\n"
        "if __name__ == '__main__':\n"
        "    for _, process in map_in_order(late_if_even, iter(int, 1), 2):\n"
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


INTERRUPTED = """
import os, signal, sys, time
from t2t_repro.command_line.program import run
from t2t_repro.data.parallel import map_in_order

def blocks():
    yield from range(5)
    # The processes for these start.
    os.killpg(0, signal.SIGINT)
    time.sleep(60)

if __name__ == "__main__":
    run(lambda: print(list(map_in_order(abs, blocks(), 4))))
"""


def test_ctrl_c_is_one_line_whatever_the_workers_do(tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "interrupted.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        # A terminal's Ctrl-C reaches all processes of a group.
        start_new_session=True,
        preexec_fn=interruptible,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
