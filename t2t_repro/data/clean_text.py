"""The text of a split on disk, cleaned: written block by block, read by block or whole.

Only training pairs are ever dropped: whatever is held out is translated and scored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np

from t2t_repro.data.block_files import Block, BlockFiles
from t2t_repro.data.cleaning import CleanBlock, Cleaning, CleaningReport, SeenHashes, clean
from t2t_repro.data.corpora.corpus import Corpus, Pair, held_out_pairs, parts_of, read_pairs
from t2t_repro.progress import Progress

# Some 3 megabytes of text, twice that as strings; a third of a second's work of one core.
_PAIRS_IN_BLOCK = 10_000

_SIDES = ("source", "target")
_HASHES = "hashes"
_CORPUS = "corpus"
_HASHES_AT_ONCE = 2**20

Reports = dict[str, CleaningReport]
"""By the names of a mixture's corpora; of a corpus by itself by "" alone."""


@dataclass(frozen=True)
class TextBlock:
    """A block of sentence pairs on disk.

    Attributes:
        starts: where it begins in the source and in the target file, bytes from their start.
        ends: where it ends, likewise.
        pairs: how many pairs it has; none, if cleaning dropped them all.
        corpus: of a mixture, the name of the corpus that all of them are of.
    """

    starts: tuple[int, int]
    ends: tuple[int, int]
    pairs: int
    corpus: str = ""


class CleanText:
    """The text of one split: a file of source sentences, a file of target sentences.

    Args:
        directory: where they lie.
        split: the split.
    """

    def __init__(self, directory: Path, split: str) -> None:
        self.split = split
        self._paths = {side: directory / f"{split}.{side}.txt" for side in _SIDES}

    def __iter__(self) -> Iterator[Pair]:
        """Yields all pairs."""
        # newline="\n": a sentence may hold a carriage return.
        source_path, target_path = self._paths.values()
        with (
            source_path.open(encoding="utf-8", newline="\n") as source,
            target_path.open(encoding="utf-8", newline="\n") as target,
        ):
            for source_line, target_line in zip(source, target, strict=True):
                yield source_line[:-1], target_line[:-1]

    def read(self, block: TextBlock) -> tuple[list[str], list[str]]:
        """Reads the source and target sentences of a block that has some."""
        source, target = (
            _read_bytes(path, start, end).decode().removesuffix("\n").split("\n")
            for path, start, end in zip(self._paths.values(), block.starts, block.ends, strict=True)
        )
        return source, target

    def write(self, work: Path, cleaned: "CleanedCorpus") -> Reports:
        """Writes the text; if a killed process wrote some of it, the rest.

        Args:
            work: folder of what only the preparation needs: journals, hashes of pairs.
            cleaned: what to write.

        Returns:
            How many pairs were kept, and dropped by reason.
        """
        with self._open(work) as files:
            if not files.finished:
                self._go_on(files, cleaned, _read_hashes(work / self._hashes_name()))
                files.finish()
            return _reports(files.blocks)

    def blocks(self, work: Path) -> list[TextBlock]:
        """Returns the blocks in which `write` wrote the text."""
        with self._open(work) as files:
            ends = [(block.ends["source"], block.ends["target"]) for block in files.blocks]
            notes = [
                (block.note.get("kept", 0), block.note.get(_CORPUS, "")) for block in files.blocks
            ]
        edges = pairwise(chain([(0, 0)], ends))
        return [TextBlock(*edge, *note) for edge, note in zip(edges, notes, strict=True)]

    def _go_on(self, files: BlockFiles, cleaned: "CleanedCorpus", seen: SeenHashes) -> None:
        done = sum(report.total() for report in _reports(files.blocks).values())
        with Progress(f"data: {self.split}: cleaning", done) as progress:
            for corpus, block in cleaned.blocks(self.split, done, seen):
                sides = zip(*block.pairs, strict=True) if block.pairs else ((), ())
                parts = {
                    side: "".join(f"{line}\n" for line in lines).encode()
                    for side, lines in zip(_SIDES, sides, strict=True)
                }
                note = {**block.report, **({_CORPUS: corpus} if corpus else {})}
                files.append({**parts, _HASHES: block.hashes.tobytes()}, note)
                progress.advance(block.report.total())

    def _open(self, work: Path) -> BlockFiles:
        paths = {**self._paths, _HASHES: work / self._hashes_name()}
        return BlockFiles(work / f"{self.split}.text.journal", paths)

    def _hashes_name(self) -> str:
        return f"{self.split}.hashes"


@dataclass(frozen=True)
class CleanedCorpus:
    """A corpus and what is done to its training pairs.

    Attributes:
        corpus: where pairs come from.
        downloads: what the corpus fetched.
        rules: which training pairs to drop.
        workers: processes that apply the rules, see `map_in_order`.
    """

    corpus: Corpus
    downloads: Path
    rules: Cleaning
    workers: int

    def blocks(self, split: str, done: int, seen: SeenHashes) -> Iterator[tuple[str, CleanBlock]]:
        """Yields a split in blocks, each of one corpus, with its name.

        Tags stand in front of the sources that the rules have judged without them.

        Args:
            split: the split.
            done: how many of its pairs to pass over.
            seen: the hashes of those of them that were kept.
        """
        for part in parts_of(self.corpus):
            if split not in part.corpus.splits:
                continue
            pairs = read_pairs(part.corpus, split, self.downloads)
            done -= sum(1 for _ in islice(pairs, done))
            for block in self._blocks_of(part.name, split, pairs, seen):
                tagged = list(map(part.tagged, block.pairs)) if part.tag else block.pairs
                yield part.name, replace(block, pairs=tagged)

    def _blocks_of(
        self, name: str, split: str, pairs: Iterator[Pair], seen: SeenHashes
    ) -> Iterator[CleanBlock]:
        blocks = iter(lambda: list(islice(pairs, _PAIRS_IN_BLOCK)), [])
        if split == "train":
            held_out = held_out_pairs(self.corpus, self.downloads)
            return clean(blocks, self.rules, held_out, seen, self.workers, name)
        return map(_unchanged, blocks)


def _reports(blocks: Iterable[Block]) -> Reports:
    reports: Reports = {}
    for block in blocks:
        note = dict(block.note)
        reports.setdefault(note.pop(_CORPUS, ""), CleaningReport()).update(note)
    return reports


def _unchanged(pairs: list[Pair]) -> CleanBlock:
    return CleanBlock(pairs, np.array([], np.uint64), CleaningReport(kept=len(pairs)))


def _read_bytes(path: Path, start: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def _read_hashes(path: Path) -> SeenHashes:
    seen = SeenHashes()
    with path.open("rb") as file:
        while len(hashes := np.fromfile(file, "<u8", _HASHES_AT_ONCE)):
            seen.add(hashes)
    return seen
