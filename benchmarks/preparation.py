"""Measures the preparation of a large corpus: pairs a second, and peak memory.

    python benchmarks/preparation.py --pairs=1000000 --work=/somewhere/large

Draws a corpus, prepares it in a process of its own, and sums the resident memory of that process
and its children twice a second. TensorFlow is loaded, as in a training that prepares its own data.
With 36 million pairs the files take 12 GB. Prints one JSON line. Needs psutil.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

_GIN = """
prepare.corpus = @TextFilesCorpus()
prepare.max_length = 256
TextFilesCorpus.train = ('{work}/train.source', '{work}/train.target')
TextFilesCorpus.dev = ('{work}/dev.source', '{work}/dev.target')
SubwordTraining.vocab_size = 32000
SubwordTraining.normalization = 'nmt_nfkc'
"""
_HELD_OUT = 3_000
_SYLLABLES = [c + v + e for c in "bdfgklmnprstwz" for v in "aeiouäöü" for e in ("", "n", "s")]


def main() -> None:
    """Draws, prepares, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--length_share", type=float, default=0.5, help="of WMT14's sentences")
    parser.add_argument("--work", type=Path, help="where to write; the system's place by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        work = Path(folder)
        write_text(work, "train", given.pairs, given.length_share)
        write_text(work, "dev", _HELD_OUT, given.length_share)
        (work / "corpus.gin").write_text(_GIN.format(work=work), encoding="utf-8")
        print(json.dumps({"pairs": given.pairs, **measure(work, given.pairs)}), flush=True)


def measure(work: Path, pairs: int) -> dict[str, float]:
    """Runs datagen; returns pairs a second and the peak of memory, in gigabytes."""
    command = [sys.executable, "-m", "t2t_repro.datagen", f"--gin_file={work / 'corpus.gin'}"]
    began, peak = time.monotonic(), 0
    with subprocess.Popen([*command, f"--data_dir={work / 'data'}"]) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [root, *root.children(recursive=True)]
                peak = max(peak, sum(each.memory_info().rss for each in family))
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.5)
    if process.returncode:
        raise SystemExit(process.returncode)
    seconds = time.monotonic() - began
    disk = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
    return {
        "seconds": round(seconds, 1),
        "pairs_per_second": round(pairs / seconds),
        "peak_gb": round(peak / 1e9, 2),
        "disk_gb": round(disk / 1e9, 2),
    }


def write_text(folder: Path, name: str, sentences: int, length_share: float) -> None:
    """Writes two aligned files of made-up words with the frequencies of natural ones.

    Frequent words are short; rank r of 2 million words has a share of (r + 3)^-1.2.
    """
    weights = (np.arange(2_000_000) + 3.0) ** -1.2
    up_to = np.cumsum(weights / weights.sum())
    generator = np.random.default_rng(2)
    paths = folder / f"{name}.source", folder / f"{name}.target"
    with paths[0].open("w", encoding="utf-8") as source, paths[1].open("w", encoding="utf-8") as to:
        for start in range(0, sentences, 100_000):
            sides = draw_lengths(min(100_000, sentences - start), seed=3 + start)
            for file, lengths in zip((source, to), sides, strict=True):
                # Three words make about four subwords.
                words = (lengths * length_share * 3 / 4).astype(int) + 1
                drawn = np.searchsorted(up_to, generator.random(words.sum()))
                for ranks in np.split(drawn, np.cumsum(words)[:-1]):
                    file.write(" ".join(map(_word, ranks.tolist())) + ".\n")


def draw_lengths(sentences: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draws lengths in subwords, as in news and parliament text: source and target, [sentences].

    Log-normal, fitted to 68,000 pairs of WMT news, Europarl and Tatoeba; the mean is WMT14's 30.
    """
    generator = np.random.default_rng(seed)
    source = np.exp(generator.normal(3.16, 0.68, sentences))
    spread = 0.10 + 0.36 / np.sqrt(source)
    target = source * np.exp(0.03 + spread * generator.standard_normal(sentences))
    first, second = (np.clip(np.rint(one) + 1, 2, 256).astype(int) for one in (source, target))
    return first, second


@lru_cache(200_000)
def _word(rank: int) -> str:
    spelled = _SYLLABLES[rank % len(_SYLLABLES)]
    while rank := rank // len(_SYLLABLES):
        spelled += _SYLLABLES[rank % len(_SYLLABLES)]
    return spelled


if __name__ == "__main__":
    main()
