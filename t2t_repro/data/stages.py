"""Makes prepared data stage by stage.

Stages: the text of each split, the subword models, the tokens of each split. They are made in
`.prepared.partial`, and a file there marks each complete stage. A run that was killed continues
after the last complete stage, with the same bytes in the end. `prepared` appears when all is done.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from unicodedata import normalize

import numpy as np
from absl import logging

from t2t_repro.data import prepared
from t2t_repro.data.cleaning import ADDED, WORDS, CleaningReport, clean
from t2t_repro.data.corpora.corpus import Pair, read_pairs
from t2t_repro.data.corpora.mixture import Part, held_out_pairs, parts_of
from t2t_repro.data.parallel import default_workers, map_in_order
from t2t_repro.data.preparation import Preparation, prepare_corpus
from t2t_repro.data.prepared import CleanText, PreparedData, Reports, TextBlock
from t2t_repro.data.token_store import STORE_FILES, VocabSizes, complete_token_store, token_block
from t2t_repro.errors import UserError
from t2t_repro.files import lock, naming, read_json, sync, write_json
from t2t_repro.progress import Progress
from t2t_repro.text.subword_model import SubwordModel, SubwordPair, open_pair

# Numbers of lines, by side and change: {("source", "'½' to '1⁄2'"): 3}.
_Changes = Counter[tuple[str, str]]


def prepare(settings: Preparation, data_dir: Path) -> PreparedData:
    """Prepares the data unless they are prepared already, and opens them.

    Args:
        settings: what to prepare, and how.
        data_dir: see `prepared`.

    Raises:
        UserError: the corpus cannot be used, or `data_dir` holds data made with other settings.
    """
    directory = data_dir / prepared.DIRECTORY
    prepare_corpus(settings, data_dir)
    if not directory.exists():
        with lock(data_dir / ".prepared.lock"):
            # Another process may have prepared the data while this one waited.
            if not directory.exists():
                Stages(settings, data_dir).run()
    data = PreparedData(directory)
    data.check_made_with(settings.identity)
    return data


def count_training_pairs(settings: Preparation, data_dir: Path) -> int:
    """Counts the training pairs that remain after cleaning, without `settings.variants`.

    If the data are prepared, returns the recorded number, whatever `settings.cleaning` is now.
    Otherwise downloads the corpus if it is missing, and cleans it.

    Args:
        settings: those of the subwords do not matter, but an existing model must be there.
        data_dir: see `prepared`.

    Raises:
        UserError: the corpus or the prepared data cannot be used, or a corpus has no pairs left.
    """
    prepare_corpus(settings, data_dir)
    if (data_dir / prepared.DIRECTORY).exists():
        data = prepared.open_data(data_dir)
        # Old data have no report of cleaning.
        counts = data.cleaning.get("train") or {"kept": len(data.store("train"))}
        return CleaningReport(counts).clean_pairs()
    reports: Reports = {}
    blocks = Stages(replace(settings, variants=None), data_dir).clean_text("train", reports)
    # Reading the blocks also fills the reports.
    pairs = sum(map(len, blocks))
    _check_pairs_left("train", reports)
    return pairs


class Stages:
    """The stages of a preparation.

    Args:
        settings: what to prepare, and how.
        data_dir: see `prepared`.
    """

    def __init__(self, settings: Preparation, data_dir: Path) -> None:
        self._settings = settings
        self._downloads = data_dir / prepared.DOWNLOADS
        self._directory = data_dir / prepared.DIRECTORY
        self._partial = data_dir / ".prepared.partial"
        self._result = self._partial / "result"
        self._workers = settings.workers or default_workers()

    def run(self) -> None:
        """Makes missing stages, checks that pairs are left, and moves the result to its place."""
        self._discard_other_data()
        reports: dict[str, Reports] = {}
        for split in self._settings.corpus.splits:
            reports[split] = self._run_stage(f"{split}.text", partial(self._write_text, split))
            _check_pairs_left(split, reports[split])
        counts = prepared.total_report(reports["train"])
        # Subwords are not learned from variants with random words.
        self._run_stage("subwords", partial(self._make_subwords, counts["kept"] - counts[WORDS]))
        for split in self._settings.corpus.splits:
            encode = partial(self._encode, split, reports[split])
            reports[split] = self._run_stage(f"{split}.tokens", encode)
            _check_pairs_left(split, reports[split])
        prepared.write_manifest(self._result, self._settings.identity, reports)
        self._result.rename(self._directory)
        shutil.rmtree(self._partial)

    def _discard_other_data(self) -> None:
        """Keeps the stages that were made with these settings; otherwise begins without any."""
        path, identity = self._partial / "identity.json", self._settings.identity
        # Killed at its very end, a process has moved the result, but not deleted the marks.
        if path.exists() and read_json(path) == identity and self._result.is_dir():
            return
        # Deleted first: killed during rmtree, a process must not leave stages that look complete.
        path.unlink(missing_ok=True)
        shutil.rmtree(self._partial, ignore_errors=True)
        self._result.mkdir(parents=True)
        write_json(path, identity)

    def _run_stage(self, name: str, make: Callable[[], Reports]) -> Reports:
        """Runs a stage unless it is complete.

        Args:
            name: its name, such as "dev.text" or "subwords".
            make: runs the stage.

        Returns:
            the reports that `make` returned, now or in an earlier process.
        """
        mark = self._partial / f"{name}.json"
        if mark.exists():
            logging.info("data: %s is complete already", name)
        else:
            with naming(self._partial):
                reports = make()
                # Before the mark: after a power cut, a marked stage could have incomplete files.
                sync(self._result, *self._result.rglob("*"))
                write_json(mark, reports)
        # Read even if just written: a continued run goes on with the same values as this one.
        return {corpus: CleaningReport(counts) for corpus, counts in read_json(mark).items()}

    def _write_text(self, split: str) -> Reports:
        """Writes the clean text of a split; returns its reports."""
        reports: Reports = {}
        CleanText(self._result, split).write(self.clean_text(split, reports))
        return reports

    def clean_text(self, split: str, reports: Reports) -> Iterator[list[Pair]]:
        """Yields the clean pairs of a split in blocks, with variants and tags.

        Args:
            split: its name.
            reports: gets, in place, a report for each corpus, complete once all blocks are read.
        """
        # The number of the next block's first pair, for the variants.
        pairs_before = 0
        variants = self._settings.variants if split == "train" else None
        parts = [part for part in parts_of(self._settings.corpus) if split in part.corpus.splits]
        with Progress(f"data: {split}: cleaning") as progress:
            for part in parts:
                # Zeros first, so that the order of the counts does not depend on the blocks.
                reports[part.name] = CleaningReport(dict.fromkeys(ADDED, 0) if variants else {})
                for cleaned, report in self._clean(split, part):
                    progress.advance(report.total())
                    pairs = cleaned
                    if variants:
                        pairs, added = variants.extend(cleaned, pairs_before)
                        pairs_before += len(cleaned)
                        report.update(added)
                    reports[part.name].update(report)
                    yield [part.tagged(pair) for pair in pairs] if part.tag else pairs

    def _clean(self, split: str, part: Part) -> Iterator[tuple[list[Pair], CleaningReport]]:
        """Returns an iterator over the pairs of a split of a corpus, in blocks with a report each.

        Only "train" is cleaned.

        Args:
            split: the split's name.
            part: the corpus; its tag is not added.
        """
        pairs = read_pairs(part.corpus, split, self._downloads)
        # The empty block after the last pair ends them.
        blocks = iter(lambda: list(islice(pairs, prepared.PAIRS_IN_BLOCK)), [])
        if split == "train":
            held_out = held_out_pairs(self._settings.corpus, self._downloads)
            return clean(blocks, self._settings.cleaning, held_out, self._workers)
        # All held-out pairs are translated and scored, so none is dropped.
        return ((block, CleaningReport(kept=len(block))) for block in blocks)

    def _make_subwords(self, count: int) -> Reports:
        """Makes the files of the subword models; returns no reports.

        Args:
            count: the number of training pairs that they are learned from.
        """
        text = CleanText(self._result, "train")
        variants = self._settings.variants
        # `sides` are indices into a pair: (0, 1) of a model that source and target share.
        for name, (recipe, sides) in self._settings.recipes.files().items():
            pairs = variants.without_words(text) if variants else text
            sentences = (pair[side] for pair in pairs for side in sides)
            recipe.train(sentences, self._result / name, len(sides) * count)
        return {}

    def _encode(self, split: str, reports: Reports) -> Reports:
        """Writes the token store of a split, and logs its counts.

        Returns:
            `reports`, changed in place: too long pairs move from "kept" to "over_long_subwords".
        """
        store = self._result / f"{split}.tokens"
        store.mkdir(exist_ok=True)
        counts = {corpus: report["kept"] for corpus, report in reports.items()}
        blocks = CleanText(self._result, split).blocks(counts)
        encoder = _BlockEncoder(self._result, self._settings.max_length)
        total = sum(counts.values())
        changes: _Changes = Counter()
        with ExitStack() as opened:
            files = {name: opened.enter_context((store / name).open("wb")) for name in STORE_FILES}
            progress = opened.enter_context(Progress(f"data: {split}: encoding", total=total))
            encoded = map_in_order(encoder, blocks, self._workers, "prepare.workers")
            for corpus, parts, pairs, too_long, block_changes in encoded:
                changes.update(block_changes)
                for name, part in parts.items():
                    files[name].write(part)
                if too_long:
                    # The update of a Counter adds.
                    reports[corpus].update(kept=-too_long, over_long_subwords=too_long)
                progress.advance(pairs)
        complete_token_store(store, encoder.sizes)
        for corpus, report in reports.items():
            logging.info("data: %s: %s", prepared.part_name(split, corpus), report.describe())
        _log_changes(split, changes)
        return reports


def _log_changes(split: str, changes: _Changes) -> None:
    """Logs for each side how many lines of a split the subwords change, with one of the changes.

    A side without changes is not logged.
    """
    for side in sorted({side for side, _ in changes}):
        counts = {change: count for (of_side, change), count in changes.items() if of_side == side}
        lines = f"{sum(counts.values()):,} {side} lines"
        logging.info(f"data: {split}: the subwords change {lines}, e.g. {min(counts)}")


def _check_pairs_left(split: str, reports: Reports) -> None:
    """Checks that every corpus has pairs left after cleaning.

    Raises:
        UserError: a corpus has none; the message counts the dropped pairs by reason.
    """
    for corpus, report in reports.items():
        if not report["kept"]:
            advice = "check the corpus, loosen Cleaning, or raise prepare.max_length"
            # For which most pairs were dropped; an empty corpus has none.
            main_reason = max(report, key=report.__getitem__, default="")
            if main_reason == "held_out_overlap":
                advice = "these pairs are in the dev or test set: take other text for one of them"
            problem = f"the split {prepared.part_name(split, corpus)!r} has no sentence pairs left"
            raise UserError(f"{problem} ({report.describe()}), expected at least one: {advice}.")


@dataclass
class _BlockEncoder:
    """Encodes blocks of text; can be pickled, since other processes call it.

    Attributes:
        directory: the folder of the subword models.
        max_length: see `Preparation`.
    """

    directory: Path
    max_length: int

    @cached_property
    def _subwords(self) -> SubwordPair:
        """The subword models, opened once in each process."""
        return open_pair(self.directory)

    @property
    def sizes(self) -> VocabSizes:
        """Sizes of the vocabularies."""
        return VocabSizes(*(model.size for model in self._subwords))

    def __call__(self, block: TextBlock) -> tuple[str, dict[str, bytes], int, int, _Changes]:
        """Encodes a block, without the pairs that are longer than `max_length` on either side.

        Returns:
            the block's corpus; bytes for each file of a token store, by name; the number of pairs
            in the text; the number of those that are too long; the `_count_changes` of both sides.
        """
        corpus, *texts = block
        # Nothing follows the last newline.
        source_lines, target_lines = (text.decode().split("\n")[:-1] for text in texts)
        # Each side is the ids of all lines, one after the other, and their number in each line.
        sides = self._subwords.encode_blocks(source_lines, target_lines)
        (_, source_lengths), (_, target_lengths) = sides
        fits = np.maximum(source_lengths, target_lengths) <= self.max_length
        source, target = ((ids[np.repeat(fits, lengths)], lengths[fits]) for ids, lengths in sides)
        parts = token_block(source, target, self.sizes)
        changes = _count_changes("source", self._subwords.source, source_lines)
        changes += _count_changes("target", self._subwords.target, target_lines)
        return corpus, parts, len(fits), int(np.count_nonzero(~fits)), changes


def _count_changes(side: str, model: SubwordModel, lines: Sequence[str]) -> _Changes:
    """Counts the lines that encoding and decoding change, by side and first changed character.

    White space is ignored, and so is whether an accent is a character of its own.

    Args:
        side: "source" or "target".
        model: the subword model of the side.
        lines: sentences of the side.
    """
    visible = {character for character in set("".join(lines)) if not character.isspace()}
    changed = {}
    for character in visible:
        decoded = model.decode(model.encode([character])[0])
        if normalize("NFC", decoded) != normalize("NFC", character):
            changed[character] = f"{character!r} to {decoded!r}"
    # Without changes, no line is searched.
    firsts = (next((c for c in line if c in changed), None) for line in lines if changed)
    return Counter((side, changed[first]) for first in firsts if first)
