"""Compares what is served with what is translated, and measures t2t_repro.serve under load.

    python benchmarks/serving.py --model_dir=runs/multi30k_tiny/model

A load test, a sentence of a split a request: requests/s, latencies, and answers that `translate`
would not give. Needs `pip install -e '.[serve]'`. Prints a JSON line; ends with status 1 if an
answer is wrong.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from t2t_repro.data.prepared import open_data
from t2t_repro.decoding.loading import load_translator


@contextmanager
def server(model_dir: Path) -> Iterator[str]:
    """Serves a model; yields the URL for predictions."""
    command = [sys.executable, "-m", "t2t_repro.serve", f"--model_dir={model_dir}", "--rest_port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        lines = iter(process.stderr)
        address = next(found[1] for line in lines if (found := re.search(r"at (http\S+/)", line)))
        yield f"{address}v1/models/translate:predict"
        process.send_signal(signal.SIGTERM)


def served(url: str, texts: Sequence[str]) -> list[str]:
    """Translates texts in one request."""
    with urlopen(url, json.dumps({"inputs": list(texts)}).encode()) as response:
        return json.load(response)["outputs"]["translation"]


def main() -> None:
    """Serves, compares and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--data_dir", type=Path, help="of the run; <model_dir>/../data by default")
    parser.add_argument("--split", default="test")
    parser.add_argument("--requests", type=int, default=10_000, help="of the load test")
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    data = open_data(options.data_dir or options.model_dir.parent / "data")
    sources = data.text(options.split)[0][:1000]
    translator = load_translator(options.model_dir)
    expected = [found[0].text for found in translator.translate(sources)]
    with server(options.model_dir) as url, ThreadPoolExecutor(options.connections) as pool:

        def timed(number: int) -> tuple[float, bool]:
            began = time.perf_counter()
            (text,) = served(url, [sources[number % len(sources)]])
            return time.perf_counter() - began, text == expected[number % len(sources)]

        began = time.perf_counter()
        answers = list(pool.map(timed, range(options.requests)))
        seconds = time.perf_counter() - began
    latencies = [latency for latency, _ in answers]
    mixed_up = sum(not is_right for _, is_right in answers)
    p50, p99 = np.percentile(latencies, (50, 99)) * 1000
    figures = {"requests_per_s": len(answers) / seconds, "p50_ms": p50, "p99_ms": p99}
    print(json.dumps({"benchmark": "serving", "wrong": mixed_up, **figures}))
    sys.exit(bool(mixed_up))


if __name__ == "__main__":
    main()
