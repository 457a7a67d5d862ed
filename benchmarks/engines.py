"""Compares engines for one model: `python benchmarks/engines.py --model_dir=DIR --input=IN`.

Each translates the lines of a file in processes of its own: some one after the other on one core,
then all of them on all cores. The rounds of the engines alternate, and their medians are printed as
a table: ms of a line alone, lines a second, size on disk, memory, and BLEU with --reference. An
engine that cannot take the model says why. For random models of any size: decoding.py.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from sacrebleu import corpus_bleu

from alternation import Measurement, alternate
from worker import Round, serve

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
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def work(lines: Sequence[str]) -> Sequence[str]:
        order = sorted(range(len(lines)), key=lambda n: -len(lines[n]))
        batches = [[lines[n] for n in order[at : at + 32]] for at in range(0, len(lines), 32)]
        answers = pool.map(lambda texts: answer(tf.constant(texts))["translation"].numpy(), batches)
        found = dict(
            zip(order, (text.decode() for texts in answers for text in texts), strict=True)
        )
        return [found[n] for n in range(len(lines))]

    return work


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


ENGINES = {
    "translate": (translate, ""),
    "SavedModel": (saved_model, "saved_model float32"),
    "CTranslate2 float32": (ctranslate2, "ctranslate2 float32"),
    "CTranslate2 int8": (ctranslate2, "ctranslate2 int8"),
    "LiteRT float32": (litert, "litert float32"),
    "LiteRT int8": (litert, "litert int8"),
    "fxtranslate": (fxtranslate, "marian int8"),
}
"""What loads each engine, and --format and --weights of its export."""


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
        serve(partial(get_ready, options))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder, rows = Path(name), {engine: [engine] for engine in ENGINES}
        for how in ("alone", "together"):
            commands = {one: partial(command, options, folder, one, how) for one in rows}
            found = alternate(commands, options.rounds, folder)
            rows = {one.peer: rows[one.peer] + figures(options, folder, one, how) for one in found}
    print("| engine | ms alone | lines/s | MB on disk | MB in memory | BLEU |")
    for row in ("|---" * 6 + "|", *(f"| {' | '.join(row)} |" for row in rows.values())):
        print(row)


def command(
    options: argparse.Namespace, folder: Path, engine: str, how: str
) -> Sequence[Path | str]:
    """Exports a model for an engine, once; returns what starts a worker.

    Raises:
        RuntimeError: the engine cannot take the model.
    """
    exported, form = folder / engine, ENGINES[engine][1].split()
    if form and not exported.exists():
        flags = [f"--model_dir={options.model_dir}", f"--export_dir={exported}"]
        flags += [f"--format={form[0]}", f"--weights={form[1]}", f"--calibration={options.input}"]
        export = [sys.executable, "-m", "t2t_repro.export", *flags]
        done = subprocess.run(export, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.splitlines()[-1])
    return [sys.executable, __file__, *sys.argv[1:], "--engine", engine, how, exported]


def get_ready(options: argparse.Namespace) -> Round:
    """Loads an engine; returns what has it translate, and keeps what it found."""
    engine, how, exported = options.engine
    if how == "alone":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    load, form = ENGINES[engine]
    work = load(Path(exported) if form else options.model_dir, options.beam)
    lines = options.input.read_text("utf-8").splitlines()
    if how == "alone":
        some = lines[:: max(1, len(lines) // options.alone)]
        return lambda: sum(len(work([line])) for line in some)
    return lambda: (
        Path(f"{exported}.txt").write_text("\n".join(work(lines)), "utf-8") and len(lines)
    )


def figures(
    options: argparse.Namespace, folder: Path, measured: Measurement, how: str
) -> list[str]:
    """Returns cells of the table."""
    median = measured.summary()
    if how == "alone":
        return [f"{1000 / median['value']:.1f}"]
    files = (folder / measured.peer).rglob("*")
    size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    cells = [median["value"], size, median["peak_mib"]]
    if options.reference:
        texts = folder / f"{measured.peer}.txt", options.reference
        found, expected = (path.read_text("utf-8").split("\n") for path in texts)
        cells.append(corpus_bleu(found, [expected[: len(found)]]).score)
    return [f"{cell:.1f}" for cell in cells] + [""] * (4 - len(cells))


if __name__ == "__main__":
    main()
