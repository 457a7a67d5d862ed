"""A long text through `translate`: lines a second, memory over time, killed and resumed.

    python benchmarks/stream.py --lines=1000000 --kills=5

Draws the lines, makes a tiny model of random weights, and translates in a process of its own, which
is killed (SIGKILL) so many times and started again, unless it is done before. Once a second its
resident memory and what it has written are read. In the end every line must be there once: a line's
translations are held against those of the same text elsewhere. Needs psutil. Prints one JSON line.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.sentencepiece import SentencePieceModel, SubwordTraining
from t2t_repro.text.subword_model import shared

_WORDS = 2000
_VOCABULARY = 1000
_CONFIG = "BeamSearch.beam_size = 1\nTranslator.max_extra_length = 0\n"


def main() -> None:
    """Draws, translates, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--d_model", type=int, default=16)
    parser.add_argument("--work", type=Path, help="where to write; the system's place by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        work = Path(folder)
        write_lines(work / "in", given.lines)
        write_model(work, given.d_model)
        samples, killed = translate(work, given.lines, given.kills)
        found = {"kills": killed, "different_texts": check(work)}
    print(json.dumps(report(samples, given.lines) | found), flush=True)


def write_lines(path: Path, count: int) -> None:
    """Writes lines of 1 to 12 words; few are alike, but every thousandth is one of three."""
    generator = random.Random(0)
    words = ["".join(generator.choices("aeioubdfgklmnprst", k=5)) for _ in range(_WORDS)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            if number % 1000:
                line = " ".join(generator.choices(words, k=generator.randint(1, 12)))
            else:
                line = words[number // 1000 % 3]
            file.write(f"{line}\n")


def write_model(work: Path, d_model: int) -> None:
    """Makes a model directory: random weights, one layer, greedy search."""
    with (work / "in").open(encoding="utf-8") as lines:
        sample = [line.rstrip("\n") for line, _ in zip(lines, range(20_000), strict=False)]
    SubwordTraining(vocab_size=_VOCABULARY).train(sample, work / "made.model")
    subwords = shared(SentencePieceModel(work / "made.model"))
    config = LayerConfig(d_model=d_model, d_ff=2 * d_model, num_heads=2)
    model = Transformer(_VOCABULARY, 1, config)
    model.build()
    weights = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(np.asarray(weight) + weights.normal(0.0, 0.3, weight.shape))
    directory = ModelDirectory(work / "model")
    directory.describe(model, subwords, _CONFIG, _CONFIG)
    directory.write_imported(model, 1)


def translate(work: Path, lines: int, kills: int) -> tuple[list[dict[str, float]], int]:
    """Translates, killed so many times at even shares of the work.

    Returns:
        a sample every second; and how often it was killed: a short text is done before that.

    Raises:
        RuntimeError: it ended by itself, and not well.
    """
    samples: list[dict[str, float]] = []
    began, killed = time.monotonic(), 0
    while True:
        process = start(work)
        is_killed = False
        while process.poll() is None:
            time.sleep(1.0)
            done = lines_done(work)
            try:
                resident = psutil.Process(process.pid).memory_info().rss
            except psutil.Error:
                continue
            samples.append(
                {"seconds": time.monotonic() - began, "lines": done, "megabytes": resident / 1e6}
            )
            if killed < kills and done >= (killed + 1) / (kills + 1) * lines:
                process.kill()
                is_killed = process.wait() == -signal.SIGKILL
        if not is_killed:
            break
        killed += 1
    if process.returncode:
        raise RuntimeError(f"translate ended with status {process.returncode}")
    return samples, killed


def start(work: Path) -> subprocess.Popen[bytes]:
    """Starts `translate`, or goes on with what it has done."""
    command = [sys.executable, "-m", "t2t_repro.translate", f"--model_dir={work / 'model'}"]
    files = [f"--input={work / 'in'}", f"--output={work / 'out'}"]
    settings = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.Popen([*command, *files], env=settings)


def lines_done(work: Path) -> int:
    """How many lines are translated, by the journal."""
    try:
        journal = (work / "out.partial" / "journal").read_text(encoding="utf-8")
    except OSError:
        return 0
    whole = journal.split("\n")[:-1]
    return sum(json.loads(line).get("note", {}).get("lines", 0) for line in whole)


def check(work: Path) -> int:
    """How many texts have more than one translation, after checking that none lacks one."""
    translations: dict[str, set[str]] = {}
    with (
        (work / "in").open(encoding="utf-8") as given,
        (work / "out").open(encoding="utf-8") as out,
    ):
        for source, target in zip(given, out, strict=True):
            translations.setdefault(source, set()).add(target)
    return sum(len(found) > 1 for found in translations.values())


def report(samples: list[dict[str, float]], lines: int) -> dict[str, Any]:
    """Rate and memory: at every tenth of the lines, and at most."""
    tenths: dict[int, int] = {}
    for sample in samples:
        tenths.setdefault(int(10 * sample["lines"] / lines), round(sample["megabytes"]))
    return {
        "lines": lines,
        "seconds": round(samples[-1]["seconds"]),
        "lines_per_second": round(lines / samples[-1]["seconds"]),
        "peak_megabytes": round(max(sample["megabytes"] for sample in samples)),
        "megabytes_at_tenths": tenths,
    }


if __name__ == "__main__":
    main()
