"""Data preparation at the size of a large corpus: pairs a second, time, and peak memory.

    python benchmarks/preparation.py --pairs 36000000 --work /somewhere/large

Draws a corpus (see `write_text`), prepares it in a process of its own, and adds up, twice a second,
the resident memory of that process and of all that it started; pages that they share are counted
once for each. TensorFlow is among it, as it is when a training prepares its own data. Needs psutil.

Sentences have by default half the length of WMT14's, so that 36 million pairs need 12 GB of disk,
which are free again in the end. Prints one JSON line.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from input import write_text
from t2t_repro.text.sentencepiece import SubwordTraining

_PREPARE = """
if __name__ == "__main__":  # The workers import this script too.
    import json, sys
    from pathlib import Path
    import tensorflow
    import input
    work, source, target = map(Path, sys.argv[1:4])
    result = input.measure_preparation(work, source, target, sample_size=int(sys.argv[4]))
    print(json.dumps(result))
"""


def main() -> None:
    """Draws, prepares, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--length_share", type=float, default=0.5, help="of WMT14's sentences")
    parser.add_argument("--sample_size", type=int, default=SubwordTraining.sample_size)
    parser.add_argument("--work", type=Path, help="where to write; the system's place by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        result = measure(Path(folder), given.pairs, given.length_share, given.sample_size)
    print(json.dumps(result), flush=True)


def measure(work: Path, pairs: int, length_share: float, sample_size: int) -> dict[str, Any]:
    """Prepares a drawn corpus; returns the result, with gigabytes of memory and of disk."""
    source, target = write_text(work, pairs, length_share)
    script = work / "prepare.py"
    script.write_text(_PREPARE, encoding="utf-8")
    arguments = [str(work), str(source), str(target), str(sample_size)]
    with subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**psutil.Process().environ(), "PYTHONPATH": ":".join(sys.path)},
    ) as process:
        memory = peak_memory(process)
        assert process.stdout is not None
        printed = process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"the preparation ended with status {process.returncode}")
    disk = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    peaks = {name: round(count / 1e9, 2) for name, count in memory.items()}
    return {**found, **peaks, "disk_gb": round(disk / 1e9, 2), "length_share": length_share}


def peak_memory(process: subprocess.Popen[str]) -> dict[str, int]:
    """Waits for a process; returns the most bytes it had, alone and with all below it."""
    peaks = {"peak_gb": 0, "peak_of_parent_gb": 0}
    root = psutil.Process(process.pid)
    while process.poll() is None:
        resident = []
        try:
            for each in [root, *root.children(recursive=True)]:
                resident.append(each.memory_info().rss)
        except psutil.NoSuchProcess:
            pass
        peaks["peak_gb"] = max(peaks["peak_gb"], sum(resident))
        peaks["peak_of_parent_gb"] = max(peaks["peak_of_parent_gb"], *resident[:1], 0)
        time.sleep(0.5)
    return peaks


if __name__ == "__main__":
    main()
