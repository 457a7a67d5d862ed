"""What BPE-dropout costs: segmenting an epoch, feeding it, training on it, and the start.

    python benchmarks/subword_dropout.py [--source a.en --target a.de] [--size tiny]

Needs nothing from outside: text is drawn from a seeded generator (see `input.write_text`), or taken
from two aligned files. Trains on whole epochs in turn, one in plain BPE, one with dropout, while
the next one is segmented in the background. Prints one JSON line a result, then a table.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from input import Result, Stopwatch, outcome, print_table, write_text
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.prepared import Preparation, PreparedData
from t2t_repro.text.bpe_dropout import SubwordDropout
from t2t_repro.text.sentencepiece import SubwordTraining
from work import SIZES

if TYPE_CHECKING:
    from t2t_repro.data.batches import Batches
    from t2t_repro.training.train_step import TrainStep

_BLOCK = 1000


def main() -> None:
    """Measures everything and prints it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--source", type=Path, help="text; one sentence a line")
    parser.add_argument("--target", type=Path, help="its translation")
    parser.add_argument("--text_pairs", type=int, default=30_000, help="of the text, if drawn")
    parser.add_argument("--probability", type=float, default=0.1)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch")
    parser.add_argument("--rounds", type=int, default=3, help="an epoch of each kind in every one")
    given = parser.parse_args()
    if (given.source is None) != (given.target is None):
        parser.error("give both --source and --target, or neither")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for result in measure(Path(folder), given):
            print(json.dumps(result), flush=True)
            results.append(result)
    print_table(results)


def measure(work: Path, given: argparse.Namespace) -> Iterator[Result]:
    """Yields all results as they come."""
    data = prepare(work, given)
    yield from measure_segmenting(data, given.probability)
    yield from measure_training(data, given)


def prepare(work: Path, given: argparse.Namespace) -> PreparedData:
    """Prepares the text; a few of its pairs are the dev set too."""
    train = (given.source, given.target)
    if given.source is None:
        train = write_text(work, given.text_pairs)
    dev = []
    for number, path in enumerate(train):
        dev.append(work / f"dev.{number}")
        with path.open("rb") as file:
            dev[-1].write_bytes(b"".join(islice(file, 100)))
    corpus = TextFilesCorpus(train=tuple(map(str, train)), dev=tuple(map(str, dev)))
    recipe = SubwordTraining(vocab_size=SIZES[given.size].vocab_size)
    return Preparation(corpus, Cleaning(), recipe).run(work / "data")


def measure_segmenting(data: PreparedData, probability: float) -> Iterator[Result]:
    """Pairs a processor second, by one process, in epoch 0 and when it knows the words."""
    store = data.store("train")
    segmenters = SubwordDropout(probability).segmenters(data.subwords, seed=1)
    for epoch in range(2):
        watch, before, after = Stopwatch(), 0, 0
        for start in range(0, len(store), _BLOCK):
            numbers = np.arange(start, min(start + _BLOCK, len(store)))
            for segment, side in zip(segmenters, store.sentences(numbers), strict=True):
                assert segment
                before += len(side[0])
                after += len(segment(epoch, numbers, side)[0])
        _, taken = watch.stop()
        rate = len(store) / taken["cpu_seconds"]
        growth = round(after / before, 3)
        yield outcome("segmenting", rate, "pairs/cpu second", epoch=epoch, growth=growth, **taken)


def measure_training(data: PreparedData, given: argparse.Namespace) -> Iterator[Result]:
    """Pairs and tokens a second, fed and trained on, and the seconds before the first batch."""
    from t2t_repro.data.batches import Batches

    kinds = {"plain": None, "dropout": SubwordDropout(given.probability)}
    with ExitStack() as opened:
        made: dict[str, Batches] = {}
        for kind, segmentation in kinds.items():
            watch = Stopwatch()
            made[kind] = batches = Batches(
                data.store("train"),
                1,
                tokens_per_batch=given.tokens,
                segmentation=segmentation,
                data=data,
            )
            opened.enter_context(closing(batches))
            next(iter(batches.epoch(0, 0)))
            wall, taken = watch.stop()
            yield outcome("start", wall, "s", kind=kind, **taken)
        for kind, batches in made.items():
            yield measure_feed(kind, batches)
        step = new_step(given.size, data)
        for batches in made.values():
            train_epoch(step, batches, 0, most=5)
        rates: dict[str, list[tuple[float, float]]] = {kind: [] for kind in made}
        for epoch in range(1, given.rounds + 1):
            for kind, batches in made.items():
                watch = Stopwatch()
                seconds, tokens = train_epoch(step, batches, epoch)
                _, taken = watch.stop()
                pair_rate, token_rate = len(data.store("train")) / seconds, tokens / seconds
                rates[kind].append((pair_rate, token_rate))
                settings: Result = {"kind": kind, "epoch": epoch}
                settings["tokens_per_second"] = round(token_rate)
                settings["pairs_per_cpu_second"] = round(pair_rate * seconds / taken["cpu_seconds"])
                yield outcome("training", pair_rate, "pairs/s", size=given.size, **settings)
        for index, unit in enumerate(("pairs/s", "tokens/s")):
            ratios = [new[index] / old[index] for old, new in zip(*rates.values(), strict=True)]
            yield outcome("dropout / plain", statistics.median(ratios), unit, size=given.size)


def measure_feed(kind: str, batches: "Batches") -> Result:
    """Tokens a second that the pipeline of the trainer gives, of an epoch that is there."""
    plan = batches.plan(0)
    watch = Stopwatch()
    for _ in batches.epoch(0, 0):
        pass
    wall, taken = watch.stop()
    tokens = sum(batches.count_tokens(0, number) for number in range(len(plan)))
    return outcome("feed", tokens / wall, "tokens/s", kind=kind, batches=len(plan), **taken)


def new_step(size: str, data: PreparedData) -> "TrainStep":
    """A model of this size and its update."""
    from t2t_repro.model.layer_config import LayerConfig
    from t2t_repro.model.transformer import Transformer
    from t2t_repro.training.optimizer import adam
    from t2t_repro.training.train_step import TrainStep

    sizes = SIZES[size]
    config = LayerConfig(sizes.d_model, sizes.d_ff, sizes.num_heads, dropout=sizes.dropout)
    model = Transformer(data.subwords.target.size, sizes.num_layers, config)
    model.build()
    update = adam(learning_rate=1e-4)
    update.build(model.trainable_variables)
    return TrainStep(model, update, seed=1)


def train_epoch(
    step: "TrainStep", batches: "Batches", epoch: int, most: int | None = None
) -> tuple[float, int]:
    """Trains on an epoch, or its first batches; returns the seconds and the tokens."""
    began, tokens = time.perf_counter(), 0
    for number, (source, target, capacity) in enumerate(batches.epoch(epoch, 0).take(most or -1)):
        float(step(number, source, target, capacity, False).loss)
        tokens += batches.count_tokens(epoch, number)
    return time.perf_counter() - began, tokens


if __name__ == "__main__":
    main()
