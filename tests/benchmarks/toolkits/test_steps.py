"""Steps are done once, however often they are asked for, and by however many at a time."""

import subprocess
import sys

from tests.processes import CHECKOUT
from toolkits.steps import append_new_row, append_row, once, write_lines

# Each says that it was there, and is there for a while.
STEP = """
import sys, time
from pathlib import Path
from toolkits.steps import once, write_text
folder = Path(sys.argv[1])
def work():
    with (folder / "done").open("a") as file:
        file.write("once\\n")
    time.sleep(0.5)
    return {"found": 5}
for _ in range(200):
    write_text(folder / "made" / "settings", "a text")
assert once(folder / "made" / "stamp.json", work) == {"found": 5}
"""


def test_of_several_processes_one_does_a_step_and_the_others_wait(tmp_path):
    path = [str(CHECKOUT), str(CHECKOUT / "benchmarks")]
    script = f"import sys\nsys.path[:0] = {path!r}\n{STEP}"
    started = [
        subprocess.Popen([sys.executable, "-c", script, tmp_path], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for process in started:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    assert (tmp_path / "done").read_text() == "once\n"
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["settings", "stamp.json"]


def test_a_step_that_failed_is_done_again(tmp_path):
    tries = []

    def work(number):
        tries.append(number)
        if len(tries) == 1:
            raise ValueError

    stamp = tmp_path / "stamp.json"
    for number in range(3):
        try:
            assert once(stamp, work, number) == {}
        except ValueError:
            assert not stamp.exists()
    assert tries == [0, 1]


def test_lines_are_written_with_their_ends(tmp_path):
    write_lines(tmp_path / "to" / "lines", ["ä", ""])
    assert (tmp_path / "to" / "lines").read_bytes() == "ä\n\n".encode()


def test_a_row_that_is_there_is_not_appended_again(tmp_path):
    path = tmp_path / "to" / "rows.jsonl"
    row = {"toolkit": "ours", "value": 0.1}
    append_row(path, row)
    append_new_row(path, {**row, "value": 0.2})
    append_new_row(path, row)
    assert path.read_text().count("\n") == 2
    append_row(path, row)
    assert path.read_text().count("\n") == 3
