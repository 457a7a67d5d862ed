"""Offline = served, and what a server stands: t2t_repro.serve with a trained model, end to end.

    python benchmarks/serving.py --model_dir=runs/multi30k_tiny/model

Exports the model in float32 and serves it. Sentences of a split are translated by the translator,
by the SavedModel called directly, and through gRPC and REST, several requests at a time: how many
lines differ from the translator's. Then a load test over each interface, a sentence a request: how
many answers are lost or mixed up, requests/s and latencies. Needs `pip install -e '.[serve]'`.
Prints a JSON line a case and two Markdown tables; ends with status 1 if anything differs.
"""

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from t2t_repro.data.prepared import open_data
from t2t_repro.decoding.loading import load_translator
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.saved_model.stored_weights import PRECISIONS
from t2t_repro.serving.grpc_predictor import GrpcPredictor
from t2t_repro.serving.load_test import run_load_test
from t2t_repro.serving.remote_translator import Address, RemoteTranslator
from t2t_repro.serving.rest_predictor import RestPredictor

Translate = Callable[[Sequence[str]], list[str]]

NAME = "benchmark"
TIMEOUT_SECONDS = 300.0


@contextmanager
def server(export_dir: Path, log: Path) -> Iterator[dict[str, str]]:
    """Serves a model; gives the addresses for REST and gRPC."""
    options = [f"--export_dir={export_dir}", f"--model_name={NAME}"]
    command = [sys.executable, "-m", "t2t_repro.serve", *options, "--rest_port=0", "--grpc_port=0"]
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            found = None
            while not found:
                if process.poll() is not None:
                    sys.exit(f"the server ended:\n{log.read_text()}")
                try:
                    process.wait(0.2)
                except subprocess.TimeoutExpired:
                    found = re.search(r"http://(\S+)/(?:.*\n)+?.*gRPC: (\S+)\n", log.read_text())
            yield {"REST": found[1], "gRPC": found[2]}
        finally:
            process.send_signal(signal.SIGTERM)
    if process.returncode:
        sys.exit(f"the server ended with status {process.returncode}:\n{log.read_text()}")


def connect(interface: str, server: str, connections: int) -> RemoteTranslator:
    """A client without retries: what is lost shall be seen."""
    address = Address(server, NAME, None, TIMEOUT_SECONDS)
    if interface == "gRPC":
        return RemoteTranslator(GrpcPredictor(address), retries=0)
    return RemoteTranslator(RestPredictor(address, connections), retries=0)


def in_requests(translate: Translate, sources: Sequence[str], rows: int, at_once: int) -> list[str]:
    """Translates in requests of so many rows, some at a time."""
    requests = [sources[first : first + rows] for first in range(0, len(sources), rows)]
    with ThreadPoolExecutor(at_once) as pool:
        return [text for texts in pool.map(translate, requests) for text in texts]


def from_saved_model(version: Path) -> Translate:
    """The default signature, called directly."""
    loaded = tf.saved_model.load(str(version))

    def translate(texts: Sequence[str]) -> list[str]:
        found = loaded.signatures["serving_default"](source=tf.constant(texts))
        return [text.decode() for text in found["translation"].numpy()]

    return translate


def by_server(client: RemoteTranslator) -> Translate:
    """The best translations that a server gives."""
    return lambda texts: [answer.translations[0].text for answer in client.translate(texts)]


def compare(
    ways: dict[str, Translate], sources: Sequence[str], expected: Sequence[str], rows: int
) -> list[dict[str, object]]:
    """How many lines each way gives otherwise than the translator."""
    found = []
    for way, translate in ways.items():
        texts = in_requests(translate, sources, rows, at_once=8)
        differ = sum(a.encode() != b.encode() for a, b in zip(texts, expected, strict=True))
        found.append({"way": way, "sentences": len(texts), "differ": differ})
        print(json.dumps({"benchmark": "served", **found[-1]}), flush=True)
    return found


def load(
    interface: str, client: RemoteTranslator, sources: Sequence[str], options: argparse.Namespace
) -> dict[str, object]:
    """What a load test over an interface finds."""
    report = run_load_test(
        lambda text: client.translate([text])[0].translations[0].text,
        sources,
        options.requests,
        options.connections,
    )
    row = {
        "interface": interface,
        "requests": report.requests,
        "at once": report.concurrency,
        "answered": len(report.latencies),
        "lost": len(report.failures),
        "mixed up": report.mixed_up,
        "requests/s": round(len(report.latencies) / report.seconds, 1),
        **{f"p{p} ms": round(1000 * report.percentile(p), 1) for p in (50, 90, 99)},
    }
    print(json.dumps({"benchmark": "load", **row}), flush=True)
    return row


def print_table(rows: Sequence[dict[str, object]]) -> None:
    """Markdown."""
    print(f"\n| {' | '.join(rows[0])} |\n|---|{'---:|' * (len(rows[0]) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row.values()))} |")


def main() -> None:
    """Exports, serves, compares and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--data_dir", type=Path, help="of the run; <model_dir>/../data by default")
    parser.add_argument("--split", default="test")
    parser.add_argument("--checkpoint")
    parser.add_argument("--gin_param", action="append", default=[])
    parser.add_argument("--rows", type=int, default=16, help="of a request that is compared")
    parser.add_argument("--requests", type=int, default=10_000, help="of each load test")
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    data = open_data(options.data_dir or options.model_dir.parent / "data")
    sources = data.text(options.split)[0][:1000]
    translator = load_translator(
        options.model_dir, options.gin_param, options.checkpoint, PRECISIONS["float32"]
    )
    expected = [found[0].text for found in translator.translate(sources)]
    with tempfile.TemporaryDirectory() as folder:
        export_dir = Path(folder, "exported")
        version = write_saved_model(Servable(translator, "float32"), export_dir, 1, NAME)
        with server(export_dir, Path(folder, "log")) as addresses:
            clients = {
                name: connect(name, address, options.connections)
                for name, address in addresses.items()
            }
            ways = {"SavedModel": from_saved_model(version)}
            ways |= {name: by_server(client) for name, client in clients.items()}
            compared = compare(ways, sources, expected, options.rows)
            loads = [load(name, client, sources, options) for name, client in clients.items()]
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"benchmark": "served", "server's largest memory, MB": round(megabytes)}))
    print_table(compared)
    print_table(loads)
    sys.exit(
        any(row["differ"] for row in compared) or any(r["lost"] or r["mixed up"] for r in loads)
    )


if __name__ == "__main__":
    main()
