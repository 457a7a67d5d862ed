"""The speed of the input: feeding batches, planning an epoch, preparing data.

    python benchmarks/input.py [--pairs 4500000] [--text_pairs 300000] [--source a.en --target a.de]

Needs nothing from outside: lengths and text are drawn from a seeded generator (see `draw_lengths`
and `write_text` for how like a corpus they are), or the text is taken from two aligned files.
Prints one JSON line a result, then a table. Beside every time stand the processor seconds it took,
since wall-clock time on a busy machine says little.
"""

import argparse
import json
import os
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.parallel import usable_cores
from t2t_repro.data.prepared import Preparation
from t2t_repro.data.token_store import TokenStore, VocabSizes, complete_token_store, token_block
from t2t_repro.text.sentencepiece import SentencePieceModel, SubwordTraining

if TYPE_CHECKING:
    from t2t_repro.data.batches import Batches

MAX_LENGTH = 256
TOKENS_PER_BATCH = 25_000
SLICES = 8
VOCAB_SIZE = 32_000
VOCAB_SIZES = VocabSizes(VOCAB_SIZE, VOCAB_SIZE)
HELD_OUT = 3000

Result = dict[str, Any]


def main() -> None:
    """Measures everything and prints it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=4_500_000, help="of the token store")
    parser.add_argument("--text_pairs", type=int, default=300_000, help="of the text, if drawn")
    parser.add_argument("--source", type=Path, help="real text instead; one sentence a line")
    parser.add_argument("--target", type=Path, help="its translation")
    parser.add_argument("--max_shapes", type=int, nargs="+", default=[3, 6, 12])
    parser.add_argument("--feed_tokens", type=int, default=50_000_000, help="to feed in a case")
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
    yield measure_preparation(work, given.source, given.target, given.text_pairs)
    prepared = TokenStore(work / "data" / "prepared" / "train.tokens")
    drawn = write_store(work / "drawn", given.pairs)
    for store in (prepared, drawn):
        for max_shapes in given.max_shapes:
            yield from measure_feed(store, max_shapes, given.feed_tokens)
    yield from measure_plan(drawn, max(given.max_shapes))
    yield from measure_memory(drawn, max(given.max_shapes))


def outcome(case: str, value: float, unit: str, **settings: Any) -> Result:
    """One result, of four digits."""
    rounded = float(f"{value:.4g}")
    found = {"benchmark": "input", "case": case, "value": rounded, "unit": unit}
    return {**found, **settings, "cores": usable_cores()}


def print_table(results: list[Result]) -> None:
    """Prints all results as a Markdown table."""
    print("\n| case | value | unit | settings |\n|---|---|---|---|")
    for result in results:
        shown = [f"{key} {value}" for key, value in list(result.items())[4:]]
        print(f"| {result['case']} | {result['value']:,} | {result['unit']} | {', '.join(shown)} |")


class Stopwatch:
    """Wall-clock seconds, and processor seconds of this process and of those that it started."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), self._used()

    @staticmethod
    def _used() -> float:
        usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def stop(self) -> tuple[float, dict[str, float]]:
        """Returns the wall-clock seconds, and both as settings of a result."""
        wall, cpu = time.perf_counter() - self._wall, self._used() - self._cpu
        return wall, {"wall_seconds": round(wall, 3), "cpu_seconds": round(cpu, 3)}


def draw_lengths(sentences: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths like those of a news and parliament corpus in subwords, EOS included.

    Log-normal; target to source varies less in long sentences. Fitted to 68,000 pairs of WMT news,
    Europarl and Tatoeba in 32,000 subwords, the mean raised to the 30 subwords of WMT14.

    Returns:
        Source and target, [sentences] each.
    """
    generator = np.random.default_rng(seed)
    source = np.exp(generator.normal(3.16, 0.68, sentences))
    spread = 0.10 + 0.36 / np.sqrt(source)
    target = source * np.exp(0.03 + spread * generator.standard_normal(sentences))

    def with_eos(length: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.clip(np.rint(length) + 1, 2, MAX_LENGTH).astype(np.int64)

    return with_eos(source), with_eos(target)


def write_store(directory: Path, sentences: int) -> TokenStore:
    """Writes a store of drawn lengths and ids."""
    sides = draw_lengths(sentences, seed=0)
    generator = np.random.default_rng(1)
    directory.mkdir(parents=True)
    for start in range(0, sentences, 10_000):
        of_block = [lengths[start : start + 10_000] for lengths in sides]
        source, target = (
            (generator.integers(3, VOCAB_SIZE, lengths.sum()), lengths) for lengths in of_block
        )
        for name, part in token_block(source, target, VOCAB_SIZES).items():
            with (directory / name).open("ab") as file:
                file.write(part)
    complete_token_store(directory, VOCAB_SIZES)
    return TokenStore(directory)


def write_text(folder: Path, sentences: int, length_share: float = 1.0) -> tuple[Path, Path]:
    """Writes two aligned files of made-up words that are as frequent as words are.

    Frequent words are short, and rank r of 2 million words has a share of (r + 3)^-1.2: of the
    first 1.3 million words, 10 % are distinct. In 68,000 pairs of WMT news, Europarl and Tatoeba
    7 % of as many English words are, and 11 % of the German.

    Args:
        folder: where to write.
        sentences: how many on either side; memory does not depend on it.
        length_share: how long sentences are, compared with `draw_lengths`.
    """
    weights = (np.arange(2_000_000) + 3.0) ** -1.2
    up_to = np.cumsum(weights / weights.sum())
    generator = np.random.default_rng(2)
    paths = folder / "drawn.source", folder / "drawn.target"
    with paths[0].open("w", encoding="utf-8") as source, paths[1].open("w", encoding="utf-8") as to:
        for start in range(0, sentences, 100_000):
            sides = draw_lengths(min(100_000, sentences - start), seed=3 + start)
            for file, lengths in zip((source, to), sides, strict=True):
                # Three words make about four subwords.
                words = (lengths * length_share * 3 / 4).astype(int) + 1
                drawn = np.searchsorted(up_to, generator.random(words.sum()))
                for ranks in np.split(drawn, np.cumsum(words)[:-1]):
                    file.write(" ".join(map(_word, ranks.tolist())) + ".\n")
    return paths


_SYLLABLES = [c + v + e for c in "bdfgklmnprstwz" for v in "aeiouäöü" for e in ("", "n", "s")]


@lru_cache(200_000)
def _word(rank: int) -> str:
    spelled = _SYLLABLES[rank % len(_SYLLABLES)]
    while rank := rank // len(_SYLLABLES):
        spelled += _SYLLABLES[rank % len(_SYLLABLES)]
    return spelled


@dataclass(frozen=True)
class TimedTraining(SubwordTraining):
    """A recipe that counts its own time, so that it can be told from that of the pairs."""

    def train(self, *arguments: Any, **named: Any) -> SentencePieceModel:
        """As in `SubwordTraining`."""
        watch = Stopwatch()
        model = super().train(*arguments, **named)
        _, self.__dict__["seconds"] = watch.stop()
        return model


def measure_preparation(
    work: Path,
    source: Path | None,
    target: Path | None,
    sentences: int = 0,
    sample_size: int = 100_000,
) -> Result:
    """Pairs a second from text files to a token store, the learning of subwords not counted."""
    train = (source, target) if source and target else write_text(work, sentences)
    held_out = []
    for side, path in zip(("source", "target"), train, strict=True):
        held_out.append(work / f"dev.{side}")
        with path.open("rb") as file:
            held_out[-1].write_bytes(b"".join(islice(file, HELD_OUT)))
    recipe = TimedTraining(vocab_size=VOCAB_SIZE, sample_size=sample_size, normalization="nmt_nfkc")
    corpus = TextFilesCorpus(train=tuple(map(str, train)), dev=tuple(map(str, held_out)))
    watch = Stopwatch()
    data = Preparation(corpus, Cleaning(), recipe, MAX_LENGTH).run(work / "data")
    _, taken = watch.stop()
    learning = recipe.__dict__["seconds"]
    taken = {key: round(taken[key] - learning[key], 3) for key in taken}
    report = json.loads((data.directory / "manifest.json").read_text())["cleaning"]["train"]
    pairs = sum(report.values())
    return outcome(
        "datagen",
        pairs / taken["wall_seconds"],
        "pairs/s",
        **taken,
        pairs_per_cpu_second=round(pairs / taken["cpu_seconds"]),
        pairs=pairs,
        learning_seconds=learning["wall_seconds"],
        text="files" if source else "drawn",
        subwords=VOCAB_SIZE,
    )


def batches_of(store: TokenStore, max_shapes: int) -> "Batches":
    """The batches that a run with the paper's batch size would train on."""
    # Imports TensorFlow, for which the workers of the preparation, that import this script, have
    # no use.
    from t2t_repro.data.batches import Batches

    return Batches(store, 1, SLICES, tokens_per_batch=TOKENS_PER_BATCH, max_shapes=max_shapes)


def measure_feed(store: TokenStore, max_shapes: int, most_tokens: int) -> Iterator[Result]:
    """Tokens a second that the pipeline of the trainer gives, and the padding of an epoch."""
    watch = Stopwatch()
    batches = batches_of(store, max_shapes)
    wall, taken = watch.stop()
    settings = {"pairs": len(store), "max_shapes": max_shapes}
    yield outcome("choice of shapes", wall, "s", **settings, **taken)
    report = batches.report()
    yield outcome("padding", 100 * (1 - report.real_share), "%", **settings, batches=report.batches)
    pipeline = iter(batches.epoch(0, 0))
    next(pipeline)
    fed = 0
    watch = Stopwatch()
    for source, target, _ in pipeline:
        fed += sum(int(np.count_nonzero(side.numpy())) for side in (source, target))
        if fed > most_tokens:
            break
    wall, taken = watch.stop()
    rate = round(fed / taken["cpu_seconds"])
    yield outcome("feed", fed / wall, "tokens/s", **settings, **taken, tokens_per_cpu_second=rate)


def measure_plan(store: TokenStore, max_shapes: int) -> Iterator[Result]:
    """Seconds of an epoch's plan, and of a resumed run's way to its first batch."""
    batches = batches_of(store, max_shapes)
    settings: dict[str, Any] = {"pairs": len(store), "max_shapes": max_shapes}
    watch = Stopwatch()
    plan = batches.plan(0)
    wall, taken = watch.stop()
    yield outcome("plan", wall, "s", **settings, **taken)
    for at, first in (("start", 0), ("middle", len(plan) // 2), ("end", len(plan) - 1)):
        watch = Stopwatch()
        next(iter(batches.epoch(0, first)))
        wall, taken = watch.stop()
        yield outcome(f"resume at the {at}", wall, "s", **settings, **taken)
        watch = Stopwatch()
        next(iter(batches_of(TokenStore(store.directory), max_shapes).epoch(0, first)))
        wall, taken = watch.stop()
        yield outcome(f"open, choose shapes, resume at the {at}", wall, "s", **settings, **taken)


def measure_memory(store: TokenStore, max_shapes: int) -> Iterator[Result]:
    """Megabytes that a plan takes at most, beside what was there, and a resumed run's start."""
    batches = batches_of(store, max_shapes)
    settings: dict[str, Any] = {"pairs": len(store), "max_shapes": max_shapes}
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    batches.plan(0)
    yield outcome(
        "plan, peak memory", (tracemalloc.get_traced_memory()[1] - held) / 1e6, "MB", **settings
    )
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    next(iter(batches_of(TokenStore(store.directory), max_shapes).epoch(0, 0)))
    peak = tracemalloc.get_traced_memory()[1] - held
    yield outcome("open, choose shapes, plan: peak memory", peak / 1e6, "MB", **settings)


if __name__ == "__main__":
    main()
