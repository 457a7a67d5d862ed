"""What an exported model's format and weights cost: bytes, BLEU, sentences/s.

    python benchmarks/servable.py --model_dir=runs/multi30k_tiny/model

Exports the model as a SavedModel, with float32, bfloat16 and int8 weights, and for CTranslate2,
with float32 and int8 ones (pip install -e '.[ctranslate2]'), loads them and has each translate a
split of the run's data, text in, text out: requests of `--rows` sentences, as many at a time as
there are cores; then some sentences alone, one after the other. CTranslate2's beam and length
penalty are given the same numbers, which mean something else to it. The kinds take turns; the first
turn counts for none. The translator answers once, in the same precision with the exact weights: how
many lines are the same. Prints a JSON line a kind and a Markdown table.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import ctranslate2
import sentencepiece
import tensorflow as tf

from one_line import mistakes_in_one_line
from t2t_repro import experiment
from t2t_repro.data.prepared import open_data
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.evaluation.scores import Score
from t2t_repro.formats.ctranslate2 import write_ctranslate2_model
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.saved_model.stored_weights import PRECISIONS

Translate = Callable[[Sequence[str]], list[str]]

ALONE = 50
"""How many sentences are translated by themselves."""

MAX_DECODING_LENGTH = 256
"""CTranslate2's default."""


class Exported(NamedTuple):
    """An exported model and what is known of it before it is timed.

    Attributes:
        translate: a request.
        megabytes: of the whole directory.
        relative_size: that, over the bytes of the weights in the kind's own format.
        from_python: what the translator makes of the sentences.
    """

    translate: Translate
    megabytes: float
    relative_size: float
    from_python: list[str]


class Measured(NamedTuple):
    """A round.

    Attributes:
        sentences_per_second: all sentences, requests side by side.
        cpu_seconds: user + system, for the same.
        milliseconds_alone: median of the sentences by themselves.
    """

    sentences_per_second: float
    cpu_seconds: float
    milliseconds_alone: float


def export_saved_model(options: argparse.Namespace, kind: str, sources: Sequence[str]) -> Exported:
    """Writes and loads a SavedModel with weights of a kind."""
    translator = experiment.load_translator(
        options.model_dir, options.gin_param, options.checkpoint, PRECISIONS[kind]
    )
    servable = Servable(translator, kind)
    with tempfile.TemporaryDirectory() as folder:
        version = write_saved_model(servable, Path(folder), 1, "benchmark")
        size = size_of(version)
        loaded = tf.saved_model.load(str(version))
    weights = sum(x.dtype.size * x.shape.num_elements() for x in servable.variables)

    def translate(texts: Sequence[str]) -> list[str]:
        found = loaded.signatures["serving_default"](source=tf.constant(texts))
        return [text.decode() for text in found["translation"].numpy()]

    from_python = [found[0].text for found in translator.translate(sources)]
    return Exported(translate, size / 1e6, size / weights, from_python)


def export_ctranslate2(options: argparse.Namespace, kind: str, sources: Sequence[str]) -> Exported:
    """Writes and loads a model directory of CTranslate2 with one worker a core."""
    translator = experiment.load_translator(
        options.model_dir, options.gin_param, options.checkpoint, "float32"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        write_ctranslate2_model(translator, kind, path)
        size = size_of(path)
        subwords = sentencepiece.SentencePieceProcessor(model_file=str(path / "subwords.model"))
        engine = ctranslate2.Translator(
            str(path), inter_threads=os.cpu_count() or 1, intra_threads=1
        )
    weights = translator.model.count_params() * (1 if kind == "int8" else 4)
    search = translator.search
    assert isinstance(search, BeamSearch)

    def translate(texts: Sequence[str]) -> list[str]:
        found = engine.translate_batch(
            subwords.encode([text.strip() for text in texts], out_type=str),
            beam_size=search.beam_size,
            length_penalty=search.length_penalty,
            min_decoding_length=0,
            max_decoding_length=MAX_DECODING_LENGTH,
        )
        return [subwords.decode(one.hypotheses[0]) for one in found]

    from_python = [found[0].text for found in translator.translate(sources)]
    return Exported(translate, size / 1e6, size / weights, from_python)


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def translate_all(translate: Translate, sources: Sequence[str], rows: int) -> list[str]:
    """Requests of so many rows, as many at a time as there are cores."""
    requests = [sources[first : first + rows] for first in range(0, len(sources), rows)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for texts in pool.map(translate, requests) for text in texts]


def measure(translate: Translate, sources: Sequence[str], rows: int) -> Measured:
    """One round of an exported model."""
    began, cpu_began = time.perf_counter(), time.process_time()
    translate_all(translate, sources, rows)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    alone = []
    for source in sources[:ALONE]:
        began = time.perf_counter()
        translate([source])
        alone.append(1000 * (time.perf_counter() - began))
    return Measured(len(sources) / seconds, cpu_seconds, statistics.median(alone))


def report(
    exported: Exported, translations: Sequence[str], scores: Sequence[Score], rounds: list[Measured]
) -> dict[str, str]:
    """A row of the table: cells by their columns' names."""
    speeds, cpu_seconds, alone = zip(*rounds, strict=True)
    same = sum(a == b for a, b in zip(translations, exported.from_python, strict=True))
    return {
        "MB": f"{exported.megabytes:.2f}",
        "× its weights": f"{exported.relative_size:.3f}",
        **{score.name: f"{score.value:.2f}" for score in scores},
        "lines as `translate`": f"{same} of {len(translations)}",
        "sentences/s": f"{statistics.median(speeds):.0f} ({min(speeds):.0f}–{max(speeds):.0f})",
        "CPU s": f"{statistics.median(cpu_seconds):.2f}",
        "ms alone": f"{statistics.median(alone):.1f}",
    }


def main() -> None:
    """Exports, translates, measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--data_dir", type=Path, help="of the run; <model_dir>/../data by default")
    parser.add_argument("--split", default="test")
    parser.add_argument("--checkpoint")
    parser.add_argument("--gin_param", action="append", default=[])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    data = open_data(options.data_dir or options.model_dir.parent / "data")
    sources, references = data.text(options.split)
    exported = {kind: export_saved_model(options, kind, sources) for kind in PRECISIONS}
    for kind in ("float32", "int8"):
        exported[f"{kind}, CTranslate2"] = export_ctranslate2(options, kind, sources)
    rounds: dict[str, list[Measured]] = {kind: [] for kind in exported}
    for _ in range(1 + options.rounds):
        for kind, model in exported.items():
            rounds[kind].append(measure(model.translate, sources, options.rows))
    rows = {}
    for kind, model in exported.items():
        translations = translate_all(model.translate, sources, options.rows)
        scores = experiment.evaluate(translations, references)
        rows[kind] = report(model, translations, scores, rounds[kind][1:])
    for kind, row in rows.items():
        print(json.dumps({"benchmark": "servable", "case": kind, **row}, ensure_ascii=False))
    columns = list(rows["float32"])
    print(f"\n| weights | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    for kind, row in rows.items():
        print(f"| {kind} | {' | '.join(row.values())} |")


if __name__ == "__main__":
    mistakes_in_one_line(main)
