"""From the text of a split to its token store, on several cores, block by block."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.block_files import BlockFiles
from t2t_repro.data.clean_text import CleanText, Reports, TextBlock
from t2t_repro.data.cleaning import CleaningReport
from t2t_repro.data.parallel import map_in_order
from t2t_repro.data.token_store import (
    STORE_FILES,
    FlatIds,
    VocabSizes,
    complete_token_store,
    token_block,
)
from t2t_repro.errors import UserError
from t2t_repro.progress import Progress
from t2t_repro.text.subword_model import SubwordPair, open_pair


def encode_text(
    text: CleanText, store: Path, work: Path, encoder: "BlockEncoder", workers: int
) -> Reports:
    """Writes the token store of a split; if a killed process wrote some of it, the rest.

    Args:
        text: the split, whole.
        store: the directory of the store, in a place where it need not be whole at any time.
        work: the folder that the text was written with, for journals.
        encoder: turns the text's blocks into tokens.
        workers: processes that do so, see `map_in_order`.

    Returns:
        What the limit of length changes in the split's reports.

    Raises:
        UserError: no pair of a corpus is short enough.
    """
    blocks = text.blocks(work)
    with BlockFiles(
        work / f"{text.split}.tokens.journal", {name: store / name for name in STORE_FILES}
    ) as files:
        done = len(files.blocks)
        first, total = (sum(block.pairs for block in part) for part in (blocks[:done], blocks))
        with Progress(f"data: {text.split}: encoding", first, total) as progress:
            encoded = map_in_order(encoder, blocks[done:], workers)
            for block, tokens in zip(blocks[done:], encoded, strict=True):
                files.append(tokens.parts, {"dropped": tokens.dropped})
                progress.advance(block.pairs)
        notes = [block.note["dropped"] for block in files.blocks]
    reports: Reports = {}
    pairs: Counter[str] = Counter()
    for block, dropped in zip(blocks, notes, strict=True):
        change = CleaningReport(over_long_subwords=dropped, kept=-dropped)
        reports.setdefault(block.corpus, CleaningReport()).update(change)
        pairs[block.corpus] += block.pairs
    for corpus, report in reports.items():
        if pairs[corpus] and report["over_long_subwords"] == pairs[corpus]:
            of_corpus = f" of {corpus!r}" if corpus else ""
            raise UserError(
                f"all sentence pairs of the split {text.split!r}{of_corpus} have more than "
                f"prepare.max_length = {encoder.max_length} subwords on one side: raise it."
            )
    complete_token_store(store, encoder.vocab_sizes)
    return reports


@dataclass(frozen=True)
class TokenBlock:
    """What a block of text adds to a token store.

    Attributes:
        parts: bytes for each of its files, by name.
        dropped: how many pairs were too long.
    """

    parts: dict[str, bytes]
    dropped: int


@dataclass
class BlockEncoder:
    """Encodes blocks of text; picklable, so that other processes can do it.

    Attributes:
        text: where the blocks lie.
        subwords: the directory of the subword models.
        vocab_sizes: their sizes.
        max_length: most ids of a sentence, EOS included; pairs beyond it are dropped.
    """

    text: CleanText
    subwords: Path
    vocab_sizes: VocabSizes
    max_length: int

    @cached_property
    def _opened(self) -> SubwordPair:
        return open_pair(self.subwords)

    def __call__(self, block: TextBlock) -> TokenBlock:
        """Encodes one block."""
        if not block.pairs:
            return TokenBlock(dict.fromkeys(STORE_FILES, b""), 0)
        source_lines, target_lines = self.text.read(block)
        source: FlatIds = self._opened.source.encode_block(source_lines)
        target: FlatIds = self._opened.target.encode_block(target_lines)
        fits = np.maximum(source[1], target[1]) <= self.max_length
        if not fits.all():
            source, target = _only(source, fits), _only(target, fits)
        dropped = len(fits) - int(np.count_nonzero(fits))
        return TokenBlock(token_block(source, target, self.vocab_sizes), dropped)


def _only(sentences: FlatIds, wanted: NDArray[np.bool_]) -> FlatIds:
    """Takes some sentences out of many; wanted is [sentences]."""
    tokens, lengths = sentences
    return tokens[np.repeat(wanted, lengths)], lengths[wanted]
