"""Parts are done in order, within their time, once; what they found stays whatever ends them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import parts
import pieces
import run
from parts import JAX, Part
from tests.processes import CHECKOUT, interruptible

GPU_DAY = CHECKOUT / "scripts" / "gpu_day.sh"
# A row at once, then a wait for a child that does not heed SIGTERM.
SLOW = """
import json, signal, subprocess, sys, time
print(json.dumps({"benchmark": "slow", "case": "first", "value": 1, "unit": "row"}), flush=True)
subprocess.run([sys.executable, "-c", "import signal, time; "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"])
"""


@pytest.fixture
def setting(tmp_path):
    python = run.Setting(
        sys.executable, run.variables(), tmp_path / "results.jsonl", tmp_path / "log"
    )
    return python


def part(name, *codes, limit=30):
    return Part(name, limit, JAX, tuple(("-c", code) for code in codes))


def says(**row):
    row = {"benchmark": "b", "case": "c", "value": 1, "unit": "u", **row}
    return f"import json; print('not a row'); print(json.dumps({row!r}))"


def do(one, setting, seconds=60):
    run.do(one, setting, time.monotonic() + seconds + run.GRACE)
    return run.rows(setting.results)


def test_rows_of_a_part_come_before_how_it_ended(setting):
    first, second, end = do(part("p", says(case="x"), says(case="y")), setting)
    assert (first["case"], second["case"]) == ("x", "y")
    assert (end["benchmark"], end["case"], end["ended"], end["unit"]) == (
        "gpu day",
        "p",
        "done",
        "s",
    )
    assert "not a row" in setting.log.read_text()


def test_a_part_that_fails_says_why_and_does_nothing_more(setting):
    first, end = do(part("p", says(), "raise ValueError('the reason')", says(case="z")), setting)
    assert first["case"] == "c"
    assert end["ended"] == "failed"
    assert "the reason" in end["said"]


@pytest.mark.parametrize(("limit", "call"), [(1, 60), (60, 1)])
def test_a_part_ends_at_its_limit_or_the_call_s_with_all_that_it_started(
    setting, monkeypatch, limit, call
):
    monkeypatch.setattr(run, "GRACE", 1)
    began = time.monotonic()
    first, end = do(part("p", SLOW, says(), limit=limit), setting, seconds=call)
    assert time.monotonic() - began < 8
    assert first["benchmark"] == "slow"
    assert end["ended"] == "out of time"
    assert "here" in setting.log.read_text()


def test_a_command_that_appends_by_itself_is_given_the_results(setting):
    code = "import sys; open(sys.argv[1].split('=')[1], 'a').write(sys.argv[2] + '\\n'); "
    row = '{"benchmark": "own", "case": "", "value": 1, "unit": ""}'
    command = ("-c", f"{code} print(sys.argv[2])", parts.RESULTS, row)
    found = do(Part("p", 30, JAX, (command,)), setting)
    assert [row["benchmark"] for row in found] == ["own", "gpu day"]


def test_what_ended_well_is_not_done_again_and_what_failed_comes_last():
    of_day = [part(name) for name in ("a", "b", "c")]
    ended = {"a": "failed", "b": "done"}
    known = [{"benchmark": "gpu day", "case": name, "ended": how} for name, how in ended.items()]
    assert [one.name for one in run.to_do(of_day, known, None)] == ["c", "a"]
    assert [one.name for one in run.to_do(of_day, known, ["a", "b"])] == ["a"]
    with pytest.raises(SystemExit, match="there is no part 'd'"):
        run.to_do(of_day, known, ["d"])


def test_what_is_no_text_ends_no_call(setting):
    first, end = do(part("p", f"{says()}; import os; os.write(1, b'\\xc3')"), setting)
    assert (first["case"], end["ended"]) == ("c", "done")


def test_half_a_line_at_the_end_is_passed_over(tmp_path):
    results = tmp_path / "results.jsonl"
    results.write_text('{"benchmark": "b"}\n{"benchmark": "gpu day", "case": "p", "en')
    assert run.rows(results) == [{"benchmark": "b"}]
    assert run.rows(tmp_path / "none") == []


def test_no_row_is_lost_behind_half_a_line(setting):
    """Neither what a command appends by itself nor how its part ended."""
    setting.results.write_text('{"benchmark": "gpu day", "case": "p", "en')
    code = "import sys; open(sys.argv[1].split('=')[1], 'a').write(sys.argv[2])"
    halves = '{"benchmark": "own"}\n{"benchmark": "killed", '
    found = do(Part("p", 30, JAX, (("-c", code, parts.RESULTS, halves),)), setting)
    assert [row["benchmark"] for row in found] == ["own", "gpu day"]


def test_a_call_keeps_the_kit_and_waits_for_tensorflow(tmp_path):
    kit, out = tmp_path / "kit", tmp_path / "out"
    kit.mkdir()
    (kit / "sizes.json").write_text('"tiny"')
    pieces.pack(kit, out, 10**6, level=1)

    def call(*arguments):
        common = [f"--root={tmp_path / 'root'}", "--results=results.jsonl", "--minutes=0"]
        words = ["bash", GPU_DAY, "run", *common, *arguments]
        return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)

    early = call()
    assert "pieces of the kit that have not arrived: 1" in early.stdout
    done = call(f"--kit={out / '1'}")
    assert "== program, equal to TensorFlow: no time left in this call" in done.stdout
    assert "11 parts wait for pieces of TensorFlow: smoke test; " in done.stdout
    # Given again it does no harm; another one is not taken for it.
    assert call(f"--kit={out / '1'}").returncode == 0
    (kit / "sizes.json").write_text('"full"')
    pieces.pack(kit, tmp_path / "other", 10**6, level=1)
    other = call(f"--kit={tmp_path / 'other' / '1'}")
    assert other.returncode == 1
    assert "other/1 is of another kit than " in other.stderr
    # The kit is there now, and what is to be done is told without doing it.
    listed = call("--list", f"--use_tensorflow={sys.executable}")
    assert "smoke test: 60 s at most" in listed.stdout.splitlines()
    wrong = call("--parts", "smoke test", "nope")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: there is no part 'nope'; there are: program, equal")


def test_a_call_with_a_part_that_failed_says_so_when_all_are_done(tmp_path, monkeypatch, capsys):
    (tmp_path / "kit").mkdir()
    (tmp_path / "kit" / "sizes.json").write_text('"tiny"')
    of_day = [part("bad", "raise ValueError"), part("slow", SLOW, limit=1), part("good", says())]
    monkeypatch.setattr(parts, "all_parts", lambda *_: of_day)
    results = tmp_path / "results.jsonl"
    monkeypatch.setattr(sys, "argv", ["run.py", f"--root={tmp_path}", f"--results={results}"])
    with pytest.raises(SystemExit, match=r"error: failed: bad \(.*logs says why"):
        run.main()
    ended = {row["case"]: row["ended"] for row in run.rows(results) if "ended" in row}
    assert ended == {"bad": "failed", "slow": "out of time", "good": "done"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_call_that_is_ended_leaves_nothing_running(tmp_path, number):
    """It is told so twice, and one of the commands heeds nothing: that is killed in the end."""
    (tmp_path / "root" / "kit").mkdir(parents=True)
    (tmp_path / "root" / "kit" / "sizes.json").write_text('"tiny"')
    python = tmp_path / "python"
    deaf = "trap '' TERM" if number == signal.SIGHUP else ""
    python.write_text(f"#!/bin/bash\n{deaf}\necho $$ > {tmp_path}/begun\nsleep 60\n")
    python.chmod(0o755)
    words = ["bash", str(GPU_DAY), "run", f"--root={tmp_path / 'root'}", "--results=out"]
    words += [f"--use_tensorflow={python}", "--parts", "smoke test"]
    with subprocess.Popen(words, cwd=tmp_path, preexec_fn=interruptible) as call:
        until = time.monotonic() + 30
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            time.sleep(0.05)
        call.send_signal(number)
        time.sleep(0.3)
        call.send_signal(number)
        assert call.wait(20) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "begun").read_text()), 0)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--earlier=nope.jsonl", "--earlier: there is no file nope.jsonl"),
        ("--jax=bin/nope", "--jax: bin/nope is no program"),
        ("--use_tensorflow=nope", "--use_tensorflow: nope is no program"),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_measured(tmp_path, argument, said):
    words = ["bash", GPU_DAY, "run", f"--root={tmp_path / 'root'}", "--results=out", argument]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_python_is_found_from_where_the_call_was_made(tmp_path, monkeypatch):
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py", "--results=out", "--jax=./python"])
    assert run.arguments().jax == str(tmp_path / "python")


def test_what_cannot_be_meant_is_said():
    done = subprocess.run(["bash", GPU_DAY, "go"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: gpu_day.sh was given 'go', expected prepare or run.\n"


def test_rows_are_such_as_the_report_reads(setting):
    from report import tables

    do(part("p", says()), setting)
    assert "| p | " in tables(json.loads(line) for line in setting.results.read_text().splitlines())
