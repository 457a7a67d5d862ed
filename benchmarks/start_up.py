"""How long a user waits: `--help` of the quick start's commands, and its way to the first step.

    python benchmarks/start_up.py [--repetitions=5] [--work=runs/start_up]

Prints a JSON line for every measurement and a Markdown table in the end. Seconds of wall clock from
the start of the process, and its user + system CPU seconds, which say more on a busy machine.
The quick start's data are prepared once beforehand, below --work; the model directory is new
every time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
VERBS = ("datagen", "trainer", "average", "translate", "evaluate")
QUICKSTART = "--gin_file=gin/quickstart.gin"
FIRST_STEP = "trainer, quick start, first step"
AIMS = {**{f"{verb} --help": 1.0 for verb in VERBS}, FIRST_STEP: 30.0}


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts `python -m t2t_repro.<verb> ...` in the checkout."""
    return subprocess.Popen(
        [sys.executable, "-m", f"t2t_repro.{arguments[0]}", *arguments[1:]],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def cpu_seconds(pid: int) -> float:
    """User + system seconds of a process that still runs, or has not been waited for (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def time_help(verb: str) -> tuple[float, float]:
    """Wall and CPU seconds of `--help`."""
    began = time.monotonic()
    process = start(verb, "--help")
    assert process.stderr is not None
    process.stderr.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    seconds = time.monotonic() - began, cpu_seconds(process.pid)
    process.wait()
    return seconds


def time_first_step(data_dir: Path) -> tuple[float, float]:
    """Wall and CPU seconds until the trainer reports step 1."""
    with tempfile.TemporaryDirectory() as model_dir:
        began = time.monotonic()
        process = start(
            "trainer",
            QUICKSTART,
            f"--data_dir={data_dir}",
            f"--model_dir={model_dir}",
            "--gin_param=TrainingSchedule.steps = 1",
        )
        assert process.stderr is not None
        seen = []
        for line in process.stderr:
            seen.append(line)
            if "step 1/1" in line:
                seconds = time.monotonic() - began, cpu_seconds(process.pid)
                process.communicate()
                return seconds
    raise RuntimeError(f"the trainer reported no step:\n{''.join(seen)}")


def main() -> None:
    """Measures every case in alternation, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--work", type=Path, default=CHECKOUT / "runs" / "start_up")
    options = parser.parse_args()
    data_dir = options.work.resolve() / "data"
    _, log = (datagen := start("datagen", QUICKSTART, f"--data_dir={data_dir}")).communicate()
    if datagen.returncode:
        sys.exit(log)
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in AIMS}
    for repetition in range(options.repetitions):
        for case in AIMS:
            is_help = case.endswith(" --help")
            wall, cpu = time_help(case.split()[0]) if is_help else time_first_step(data_dir)
            found[case].append((wall, cpu))
            result = {"benchmark": "start_up", "case": case, "value": round(wall, 3), "unit": "s"}
            print(json.dumps({**result, "cpu_s": round(cpu, 3), "repetition": repetition}))
            sys.stdout.flush()
    print("\n| case | wall, median (s) | CPU, median (s) | aim, wall (s) |\n|---|---|---|---|")
    for case, seconds in found.items():
        wall, cpu = (statistics.median(column) for column in zip(*seconds, strict=True))
        print(f"| `{case}` | {wall:.2f} | {cpu:.2f} | {AIMS[case]:.0f} |")


if __name__ == "__main__":
    main()
