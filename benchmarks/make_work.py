"""Makes the work that all peers share, once, from Multi30k: see `work.py`.

    bash scripts/multi30k.sh
    python benchmarks/make_work.py

Needs t2t_repro: subwords, shapes and batches are made by its own data preparation.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.batches import Batches
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.preparation import Preparation
from t2t_repro.data.prepared import PreparedData
from t2t_repro.data.stages import prepare
from t2t_repro.text.subword_model import SHARED_SUBWORDS
from t2t_repro.text.training import SubwordTraining
from work import (
    DEFAULT_DIRECTORY,
    PAD_ID,
    ROWS,
    SIZES,
    Batch,
    save_training,
    sources_file,
    training_file,
)

_SENTENCES = 256
_BATCHES = 16
_SEED = 1
# Tokens of a batch.
_TOKENS = {"base": 2_048, "base_32k": 2_048, "tiny": 4_096, "smoke": 700}


def main() -> None:
    """Prepares Multi30k in both vocabularies and writes batches and sentences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--multi30k", type=Path, default=Path("runs/multi30k"))
    parser.add_argument("--work", type=Path, default=DEFAULT_DIRECTORY / "work")
    arguments = parser.parse_args()
    for size, tokens in _TOKENS.items():
        data = _prepare(arguments.work, arguments.multi30k, SIZES[size].subwords)
        batches = _training(data, tokens)
        save_training(arguments.work / training_file(size), batches)
        found = [batch.target_tokens for batch in batches]
        print(f"{size}: {len(batches)} batches, {np.mean(found):.0f} target tokens a batch")
        _write_sentences(arguments.work, size, data)


def subword_model(work: Path, subwords: int) -> Path:
    """Returns where the model of so many subwords lies."""
    return work / f"multi30k_{subwords}" / "prepared" / SHARED_SUBWORDS


def _prepare(work: Path, multi30k: Path, subwords: int) -> PreparedData:
    """As gin/multi30k_tiny.gin does: lower-cased, tokenised text; a joint vocabulary."""
    train, dev, test = [
        tuple(str(multi30k / "tok" / f"{name}.lc.norm.tok.{side}.gz") for side in ("en", "de"))
        for name in ("train", "val", "test_2016_flickr")
    ]
    settings = Preparation(
        corpus=TextFilesCorpus(train, dev, test),
        cleaning=Cleaning(drop_duplicates=False, drop_held_out=False),
        subwords=SubwordTraining(subwords, normalization="identity"),
        max_length=128,
    )
    return prepare(settings, subword_model(work, subwords).parents[1])


def _training(data: PreparedData, tokens: int) -> list[Batch]:
    """The first batches of an epoch, drawn and padded as the trainer does."""
    store = data.store("train")
    batches = Batches(store, BatchSettings(tokens), _SEED)
    epoch = itertools.islice(batches.epoch(0, 0), _BATCHES)
    return [Batch(source.numpy()[0], target.numpy()[0]) for source, target, _ in epoch]


def _write_sentences(work: Path, size: str, data: PreparedData) -> None:
    """Writes the first test sentences, sorted by length: as ids, and as text."""
    lines = data.text("test")[0][:_SENTENCES]
    ids = data.subwords.source.encode(lines)
    order = sorted(range(len(lines)), key=lambda i: len(ids[i]))
    text = "".join(f"{lines[i]}\n" for i in order)
    path = work / sources_file(size)
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    groups = [[ids[i] for i in order[at : at + ROWS]] for at in range(0, len(order), ROWS)]
    np.savez_compressed(path, *map(_padded, groups))


def _padded(rows: list[list[int]]) -> NDArray[np.int32]:
    """[batch, source_length] of sentences of different lengths."""
    ids = np.full((len(rows), max(map(len, rows))), PAD_ID, np.int32)
    for row, sentence in zip(ids, rows, strict=True):
        row[: len(sentence)] = sentence
    return ids


if __name__ == "__main__":
    main()
