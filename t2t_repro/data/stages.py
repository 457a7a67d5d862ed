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

_Changes = Counter[tuple[str, str]]


def prepare(settings: Preparation, data_dir: Path) -> PreparedData:
    """Prepares the data, or opens them if they are prepared.

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
    """Counts the training pairs that remain after cleaning.

    The data need not be prepared.

    Args:
        settings: of the preparation; those of the subwords do not matter.
        data_dir: see `prepared`.

    Raises:
        UserError: the corpus or the prepared data cannot be used, or a corpus has no pairs left.
    """
    prepare_corpus(settings, data_dir)
    if (data_dir / prepared.DIRECTORY).exists():
        return CleaningReport(prepared.open_data(data_dir).cleaning["train"]).clean_pairs()
    reports: Reports = {}
    blocks = Stages(replace(settings, variants=None), data_dir).clean_text("train", reports)
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
        self._corpus = settings.corpus
        self._downloads = data_dir / prepared.DOWNLOADS
        self._directory = data_dir / prepared.DIRECTORY
        self._partial = data_dir / ".prepared.partial"
        self._result = self._partial / "result"
        self._workers = settings.workers or default_workers()

    def run(self) -> None:
        """Makes the missing stages, and moves the result to its place."""
        self._discard_other_data()
        reports = {
            split: self._stage(f"{split}.text", partial(self._write_text, split))
            for split in self._corpus.splits
        }
        pairs = prepared.total_report(reports["train"])
        self._stage("subwords", partial(self._make_subwords, pairs["kept"] - pairs[WORDS]))
        for split in self._corpus.splits:
            encode = partial(self._encode, split, reports[split])
            reports[split] = self._stage(f"{split}.tokens", encode)
        prepared.write_manifest(self._result, self._settings.identity, reports)
        self._result.rename(self._directory)
        shutil.rmtree(self._partial)

    def _discard_other_data(self) -> None:
        """Deletes stages that were made with other settings, and begins without any."""
        path, identity = self._partial / "identity.json", self._settings.identity
        # A process that was killed at its very end has moved the result, but left its marks.
        if not (path.exists() and read_json(path) == identity and self._result.is_dir()):
            # First: killed while it deletes, a process would leave stages that count as whole.
            path.unlink(missing_ok=True)
            shutil.rmtree(self._partial, ignore_errors=True)
            self._result.mkdir(parents=True)
            write_json(path, identity)

    def _stage(self, name: str, make: Callable[[], Reports]) -> Reports:
        """Runs a stage unless it is complete, and returns its reports."""
        mark = self._partial / f"{name}.json"
        if mark.exists():
            logging.info("data: %s is complete already", name)
        else:
            with naming(self._partial):
                reports = make()
                # Before the mark: after a power cut, the files could be shorter than it says.
                sync(self._result, *self._result.rglob("*"))
                write_json(mark, reports)
        reports = {corpus: CleaningReport(counts) for corpus, counts in read_json(mark).items()}
        _check_pairs_left(name.rpartition(".")[0], reports)
        return reports

    def _write_text(self, split: str) -> Reports:
        """Cleans a split and writes its text."""
        reports: Reports = {}
        CleanText(self._result, split).write(self.clean_text(split, reports))
        return reports

    def clean_text(self, split: str, reports: Reports) -> Iterator[list[Pair]]:
        """Yields the text of a split in blocks, with variants and tags, and adds to the reports."""
        number = 0
        variants = self._settings.variants if split == "train" else None
        parts = [part for part in parts_of(self._corpus) if split in part.corpus.splits]
        with Progress(f"data: {split}: cleaning") as progress:
            for part in parts:
                # Named first, so that the order of a report does not depend on blocks.
                reports[part.name] = CleaningReport(dict.fromkeys(ADDED, 0) if variants else {})
                for pairs, report in self._clean(split, part):
                    progress.advance(report.total())
                    if variants:
                        first, number = number, number + len(pairs)
                        pairs, added = variants.extend(pairs, first)
                        report.update(added)
                    reports[part.name].update(report)
                    yield [part.tagged(pair) for pair in pairs] if part.tag else pairs

    def _clean(self, split: str, part: Part) -> Iterator[tuple[list[Pair], CleaningReport]]:
        """Yields the pairs of a corpus in blocks, with a report on each; tags come later."""
        pairs = read_pairs(part.corpus, split, self._downloads)
        blocks = iter(lambda: list(islice(pairs, prepared.PAIRS_IN_BLOCK)), [])
        if split == "train":
            held_out = held_out_pairs(self._corpus, self._downloads)
            return clean(blocks, self._settings.cleaning, held_out, self._workers)
        # Held-out pairs are all translated and scored.
        return ((block, CleaningReport(kept=len(block))) for block in blocks)

    def _make_subwords(self, pairs: int) -> Reports:
        """Learns the subword models; the stage has no reports.

        Args:
            pairs: number of training pairs to learn from.
        """
        text = CleanText(self._result, "train")
        variants = self._settings.variants
        for name, (recipe, sides) in self._settings.recipes.files().items():
            # Variants with random words are left out.
            learned = variants.without_words(text) if variants else text
            sentences = (pair[side] for pair in learned for side in sides)
            recipe.train(sentences, self._result / name, len(sides) * pairs)
        return {}

    def _encode(self, split: str, reports: Reports) -> Reports:
        """Writes the token store of a split; returns the reports with over-long pairs in them."""
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
                    reports[corpus].update(kept=-too_long, over_long_subwords=too_long)
                progress.advance(pairs)
        complete_token_store(store, encoder.sizes)
        for corpus, report in reports.items():
            logging.info("data: %s: %s", prepared.part_name(split, corpus), report.describe())
        for side in sorted({side for side, _ in changes}):
            lines = {change: count for (at, change), count in changes.items() if at == side}
            changed = f"{sum(lines.values()):,} {side} lines"
            logging.info(f"data: {split}: the subwords change {changed}, e.g. {min(lines)}")
        return reports


def _check_pairs_left(split: str, reports: Reports) -> None:
    """Checks that cleaning has left pairs of every corpus.

    Raises:
        UserError: a corpus has none left; the message has the main reason.
    """
    for corpus, report in reports.items():
        if not report["kept"]:
            advice = "check the corpus, loosen Cleaning, or raise prepare.max_length"
            if max(report, key=report.__getitem__, default="") == "held_out_overlap":
                advice = "these pairs are in the dev or test set: take other text for one of them"
            problem = f"the split {prepared.part_name(split, corpus)!r} has no sentence pairs left"
            raise UserError(f"{problem} ({report.describe()}), expected at least one: {advice}.")


@dataclass
class _BlockEncoder:
    """Encodes blocks of text.

    It can be pickled.

    Attributes:
        directory: the folder of the subword models.
        max_length: see `Preparation`.
    """

    directory: Path
    max_length: int

    @cached_property
    def _subwords(self) -> SubwordPair:
        return open_pair(self.directory)

    @property
    def sizes(self) -> VocabSizes:
        """Sizes of the vocabularies."""
        return VocabSizes(*(model.size for model in self._subwords))

    def __call__(self, block: TextBlock) -> tuple[str, dict[str, bytes], int, int, _Changes]:
        """Encodes a block.

        Returns:
            the block's corpus, bytes for each file of a token store by name, the numbers of pairs
            in the text and of those among them that are too long, and the `_changes` of both sides.
        """
        corpus, *texts = block
        lines = [text.decode().split("\n")[:-1] for text in texts]
        sides = self._subwords.encode_blocks(*lines)
        fits = np.maximum(*(lengths for _, lengths in sides)) <= self.max_length
        source, target = ((ids[np.repeat(fits, counts)], counts[fits]) for ids, counts in sides)
        parts = token_block(source, target, self.sizes)
        changes = sum(map(_changes, ("source", "target"), self._subwords, lines), Counter())
        return corpus, parts, len(fits), int(np.count_nonzero(~fits)), changes


def _changes(side: str, model: SubwordModel, lines: Sequence[str]) -> _Changes:
    """Counts the lines with a character that the subwords write otherwise, by the first of them."""
    changed = {}
    for character in filter(str.split, set("".join(lines))):
        written = model.decode(model.encode([character])[0])
        if normalize("NFC", written) != normalize("NFC", character):
            changed[character] = f"{character!r} to {written!r}"
    first = (next(filter(None, map(changed.get, line)), None) for line in lines if changed)
    return Counter((side, change) for change in first if change)
