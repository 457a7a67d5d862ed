"""Compares engines for one model: `python benchmarks/engines.py --model_dir=DIR --input=IN`.

Each translates the lines of a file in processes of its own: one line after the other on one core,
then all of them on all cores. The rounds of the engines alternate, and their medians are printed as
a table: ms of a line alone, lines a second, size on disk, memory, and BLEU with --reference. An
engine that cannot take the model says why.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXPORTS = {
    "translate": None,
    "SavedModel": ["--format=saved_model"],
    "CTranslate2 float32": ["--format=ctranslate2", "--weights=float32"],
    "CTranslate2 int8": ["--format=ctranslate2", "--weights=int8"],
    "LiteRT float32": ["--format=litert", "--weights=float32"],
    "LiteRT int8": ["--format=litert", "--weights=int8"],
    "fxtranslate": ["--format=marian"],
}
"""What `export` is told for each engine; the first takes the model directory."""

Translate = Callable[[Sequence[str]], Sequence[str]]


def translate(folder: Path, beam: int) -> Translate:
    """Loads this package's translator."""
    from t2t_repro.decoding.loading import load_translator

    engine = load_translator(folder)
    return lambda lines: [best.text for best, *_ in engine.translate(lines)]


def saved_model(folder: Path, beam: int) -> Translate:
    """Loads the graph of TensorFlow Serving, which answers requests of 32 lines, one on a core."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    answer = tf.saved_model.load(str(folder / "1")).signatures["serving_default"]

    def work(lines: Sequence[str]) -> Sequence[str]:
        found = answer(tf.constant(lines))["translation"].numpy()
        return [text.decode() for text in found]

    def work_on_all_cores(lines: Sequence[str]) -> Sequence[str]:
        order = sorted(range(len(lines)), key=lambda n: -len(lines[n]))
        batches = [order[first : first + 32] for first in range(0, len(lines), 32)]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            answers = pool.map(lambda batch: work([lines[n] for n in batch]), batches)
            found = dict(zip(order, [text for texts in answers for text in texts], strict=True))
        return [found[n] for n in range(len(lines))]

    return work_on_all_cores


def ctranslate2(folder: Path, beam: int) -> Translate:
    """Loads CTranslate2 as docs/serving.md does."""
    import ctranslate2 as library
    from sentencepiece import SentencePieceProcessor

    cores = len(os.sched_getaffinity(0))
    engine = library.Translator(str(folder), inter_threads=cores, intra_threads=1)
    subwords = SentencePieceProcessor(model_file=str(folder / "subwords.model"))
    how = {"length_penalty": 0.6, "max_batch_size": 2048, "batch_type": "tokens"}

    def work(lines: Sequence[str]) -> Sequence[str]:
        pieces = subwords.encode([*lines], out_type=str)
        found = engine.translate_batch(pieces, beam_size=beam, **how)
        return [subwords.decode(one.hypotheses[0]) for one in found]

    return work


def litert(folder: Path, beam: int) -> Translate:
    """Loads what `translate --litert` does."""
    from t2t_repro.decoding.litert import LiteRTTranslator

    engine = LiteRTTranslator(folder)
    return lambda lines: [best.text for best, *_ in engine.translate(lines)]


def fxtranslate(folder: Path, beam: int) -> Translate:
    """Loads fxtranslate, an engine for Firefox's models with one thread."""
    from fxtranslate import Translator

    model, words = (next(folder.glob(name)).read_bytes() for name in ("model*.bin", "*.spm"))
    engine = Translator(model, words, words, None)
    return lambda lines: [engine.translate(line) for line in lines]


LOADERS = {
    "translate": translate,
    "SavedModel": saved_model,
    "CTranslate2": ctranslate2,
    "LiteRT": litert,
    "fxtranslate": fxtranslate,
}


def main() -> None:
    """Measures all engines, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--beam", type=int, default=4, help="the model's, for CTranslate2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alone", type=int, default=50, help="lines to translate one by one")
    parser.add_argument("--engine", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(measured(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        folders = exported(options, Path(folder))
        rounds = [
            measured_apart(engine, path)
            for _ in range(options.rounds)
            for engine, path in folders.items()
        ]
    columns = ["ms alone", "lines/s", "MB on disk", "MB in memory", "BLEU"]
    print(f"| engine | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for engine in folders:
        own = [one for one in rounds if one["engine"] == engine]
        values = [[one[name] for one in own if name in one] for name in columns]
        cells = [f"{statistics.median(some):.1f}" if some else "" for some in values]
        print(f"| {engine} | {' | '.join(cells)} |")


def exported(options: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """Exports a model for all engines that take it; returns their folders."""
    folders = {}
    for engine, flags in EXPORTS.items():
        folders[engine] = folder / engine if flags else options.model_dir
        if flags:
            where = [f"--model_dir={options.model_dir}", f"--export_dir={folders[engine]}"]
            where += [f"--calibration={options.input}"] * (engine == "fxtranslate")
            command = [sys.executable, "-m", "t2t_repro.export", *where, *flags]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{engine}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
                del folders[engine]
    return folders


def measured_apart(engine: str, folder: Path) -> dict[str, Any]:
    """Measures an engine in two processes, on one core and on all."""
    found: dict[str, Any] = {"engine": engine}
    for how in ("alone", "together"):
        command = [sys.executable, __file__, *sys.argv[1:], "--engine", engine, str(folder), how]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            print(f"{engine}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
        else:
            found |= json.loads(done.stdout.splitlines()[-1])
    return found


def measured(options: argparse.Namespace) -> dict[str, float]:
    """Measures an engine in this process."""
    engine, folder, how = options.engine
    if how == "alone":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    work = LOADERS[engine.split()[0]](Path(folder), options.beam)
    lines = options.input.read_text("utf-8").splitlines()
    chosen = lines[:: max(1, len(lines) // options.alone)]
    seconds = []
    for line in chosen[:5] + chosen if how == "alone" else []:
        began = time.perf_counter()
        work([line])
        seconds.append(time.perf_counter() - began)
    if seconds:
        return {"ms alone": 1000 * statistics.median(seconds[5:])}
    work(lines)  # traces every shape
    began = time.perf_counter()
    found = work(lines)
    files = [file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = len(lines) / (time.perf_counter() - began)
    values = {"lines/s": rate, "MB on disk": sum(files) / 1e6, "MB in memory": memory}
    if options.reference:
        from sacrebleu import corpus_bleu

        references = options.reference.read_text("utf-8").splitlines()
        values["BLEU"] = corpus_bleu([*found], [references]).score
    return values


if __name__ == "__main__":
    main()
