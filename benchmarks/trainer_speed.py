"""Tokens a second of the trainer's own loop: input, updates, logging and all.

    python benchmarks/trainer_speed.py --case=Multi30k -- --gin_file=gin/multi30k_tiny.gin

Arguments behind "--" are the trainer's. Every report of its log becomes a JSON line at once; the
last one of a case counts.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence

# As `training/journal.py` writes it where there is no progress bar.
REPORT = re.compile(
    r"step (?P<step>\d+)/\d+: loss (?P<loss>\S+), nll (?P<nll>\S+), "
    r"lr \S+, (?P<value>[\d,]+) src\+tgt"
)


def main() -> None:
    """Runs the trainer, and passes its log on."""
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", required=True, help="of the results")
    options = parser.parse_args(words[:at])
    sys.exit(run(options.case, [sys.executable, "-m", "t2t_repro.trainer", *words[at + 1 :]]))


def run(case: str, command: Sequence[str]) -> int:
    """Runs a trainer, prints a row for each of its reports, and returns its exit status."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # Asked to stop, it ends well, with a checkpoint.
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            if found := report(line):
                row = {"benchmark": "trainer", "case": case, "unit": "src+tgt tokens/s", **found}
                print(json.dumps(row), flush=True)
    return process.returncode


def report(line: str) -> dict[str, float] | None:
    """Reads step, loss, nll and tokens a second out of a line of the log; None if it is another."""
    found = REPORT.search(line)
    if not found:
        return None
    return {name: float(text.replace(",", "")) for name, text in found.groupdict().items()}


if __name__ == "__main__":
    main()
