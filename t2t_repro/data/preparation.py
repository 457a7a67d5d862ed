"""Prepares data for training: clean text, subword models, token stores.

Stages: the text of each split, the subword models, the tokens of each split. They are made in
`.prepared.partial`, and a file there marks each complete stage. A run that was killed continues
after the last complete stage, with the same bytes in the end. `prepared` appears when all is done.
"""

import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from unicodedata import normalize

import gin
import numpy as np
from absl import logging

from t2t_repro.config.checks import differing_values
from t2t_repro.config.values import Count, validated
from t2t_repro.data.clean_text import PAIRS_IN_BLOCK, CleanText, TextBlock
from t2t_repro.data.cleaning import ADDED, WORDS, Cleaning, CleaningReport, clean
from t2t_repro.data.corpora.corpus import (
    Corpus,
    Mixed,
    Pair,
    Part,
    held_out_pairs,
    parts_of,
    read_pairs,
)
from t2t_repro.data.mixing import EpochMixture
from t2t_repro.data.parallel import default_workers, map_in_order
from t2t_repro.data.prepared import DIRECTORY, MANIFEST, PreparedData, file_sizes, part_name
from t2t_repro.data.token_store import STORE_FILES, VocabSizes, complete_token_store, token_block
from t2t_repro.errors import UserError
from t2t_repro.files import lock, naming, read_json, write_json
from t2t_repro.progress import Progress
from t2t_repro.text.given import CONTENT, SubwordRecipe, content_hash
from t2t_repro.text.subword_model import (
    SHARED_SUBWORDS,
    SOURCE_SUBWORDS,
    TARGET_SUBWORDS,
    SubwordModel,
    SubwordPair,
    open_pair,
)
from t2t_repro.text.training import SubwordTraining

_FORMAT = 1
_DOWNLOADS = "downloads"

Reports = dict[str, CleaningReport]
"""A report for each corpus of a mixture, by name; for a single corpus, one with the name ""."""


class Variants(Protocol):
    """Adds variants of training pairs; a dataclass, whose fields the prepared data record."""

    def extend(self, pairs: Iterable[Pair], first: int) -> tuple[list[Pair], CleaningReport]:
        """Puts the variants of pairs, of which the first has the number `first`, behind them.

        Returns:
            all pairs, and the report on the variants, of the kinds `ADDED`, among them.
        """
        ...

    def without_words(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields the pairs that `extend` returned, but those with words to be copied: `WORDS`."""
        ...


@gin.configurable("prepare")
@validated
@dataclasses.dataclass(frozen=True)
class Preparation:
    """The settings of data preparation.

    Attributes:
        corpus: source of the sentence pairs.
        cleaning: rules that drop training pairs.
        subwords: recipe of the subword model that source and target share: training on these data,
            or an existing model (`GivenSubwords`).
        max_length: most ids of a sentence on either side, EOS included. Longer pairs of any split
            are not in its token store, and are reported as over-long subwords. They stay in the
            text, which is translated and scored.
        workers: processes that clean and encode a large corpus; by default one a core, at most
            eight. The result does not depend on it.
        source_subwords: recipe of a subword model of the source's own; `subwords` is then the
            target's. Each is trained on its side alone.
        variants: adds variants of training pairs; such as `TextVariants` in gin/text_variants.py.

    Raises:
        UserError: an argument is not valid.
    """

    corpus: Corpus = gin.REQUIRED
    cleaning: Cleaning = dataclasses.field(default_factory=Cleaning)
    subwords: SubwordRecipe = dataclasses.field(default_factory=SubwordTraining)
    max_length: Count = 256
    workers: Count | None = None
    source_subwords: SubwordRecipe | None = None
    variants: Variants | None = None

    def __post_init__(self) -> None:
        if missing := {"train", "dev"}.difference(self.corpus.splits):
            raise UserError(
                f"prepare.corpus has no split {' and no split '.join(sorted(missing))}, expected "
                "train and dev: add such sentences, for example with TextFilesCorpus.dev."
            )
        # The tags of a mixture are symbols of the subword model too; users bind them once.
        name = "source_subwords" if self.source_subwords else "subwords"
        tags = [symbol for part in parts_of(self.corpus) for symbol in part.tag]
        if tags:
            object.__setattr__(self, name, getattr(self, name).with_symbols(tags))

    @property
    def has_own_source_ids(self) -> bool:
        """Whether an id may mean one piece in the source and another in the target."""
        if self.source_subwords is None:
            return False
        pieces = self.subwords.pieces()
        return pieces is None or self.source_subwords.pieces() != pieces

    def run(self, data_dir: Path) -> PreparedData:
        """Prepares the data, or opens them if they are prepared.

        Args:
            data_dir: see `prepared`.

        Raises:
            UserError: the corpus cannot be used, or `data_dir` holds data made with other settings.
        """
        directory = data_dir / DIRECTORY
        prepare_corpus(self.corpus, data_dir)
        identity = self._identity()
        if not directory.exists():
            with lock(data_dir / ".prepared.lock"):
                if not directory.exists():
                    _Stages(self, data_dir, identity).run()
        data = PreparedData(directory)
        _check_identity(data, identity)
        return data

    def mixture(self, data: PreparedData, seed: int) -> EpochMixture | None:
        """Returns how the corpora of a mixture share an epoch; None for a single corpus.

        Args:
            data: made by `run`; the weights may have changed since.
            seed: of the run.

        Raises:
            UserError: a corpus would have no sentence in an epoch.
        """
        if not isinstance(self.corpus, Mixed):
            return None
        return EpochMixture(data.corpora("train"), self.corpus.weights, seed)

    def _identity(self) -> dict[str, Any]:
        """Returns everything that determines the prepared data, as JSON values."""
        identity = {
            "format": _FORMAT,
            "corpus": self.corpus.describe(),
            "cleaning": dataclasses.asdict(self.cleaning),
            "subwords": self.subwords.describe(),
            "max_length": self.max_length,
        }
        if self.source_subwords:
            identity["source_subwords"] = self.source_subwords.describe()
        if self.variants:
            identity["variants"] = dataclasses.asdict(self.variants)  # type: ignore[call-overload]
        described: dict[str, Any] = json.loads(json.dumps(identity))
        return described


def prepare_corpus(corpus: Corpus, data_dir: Path) -> None:
    """Fetches and checks a corpus, unless the data are prepared.

    Args:
        corpus: source of the pairs.
        data_dir: as in `Preparation.run`.

    Raises:
        UserError: the corpus cannot be used.
    """
    if not (data_dir / DIRECTORY).exists():
        corpus.prepare(data_dir / _DOWNLOADS)


def count_training_pairs(corpus: Corpus, data_dir: Path) -> int:
    """Counts the pairs to train on, before cleaning; of prepared data, the manifest tells.

    Args:
        corpus: source of the pairs.
        data_dir: as in `Preparation.run`.

    Raises:
        UserError: the corpus or the prepared data cannot be used.
    """
    if (data_dir / DIRECTORY).exists():
        return CleaningReport(PreparedData(data_dir / DIRECTORY).cleaning["train"]).given()
    prepare_corpus(corpus, data_dir)
    parts = (part.corpus for part in parts_of(corpus))
    return sum(1 for one in parts for _ in read_pairs(one, "train", data_dir / _DOWNLOADS))


class _Stages:
    """Makes prepared data stage by stage.

    Args:
        settings: of the preparation.
        data_dir: see `prepared`.
        identity: of the data.
    """

    def __init__(self, settings: Preparation, data_dir: Path, identity: dict[str, Any]) -> None:
        self._settings = settings
        self._identity = identity
        self._splits = settings.corpus.splits
        self._downloads = data_dir / _DOWNLOADS
        self._directory = data_dir / DIRECTORY
        self._partial = data_dir / ".prepared.partial"
        self._result = self._partial / "result"
        self._workers = settings.workers or default_workers()

    def run(self) -> None:
        """Makes the stages that are not complete, and puts the result in its place."""
        self._discard_other_data()
        reports = {
            split: self._stage(f"{split}.text", partial(self._write_text, split))
            for split in self._splits
        }
        self._stage("subwords", partial(self._train_subwords, _sum(reports["train"])))
        for split in self._splits:
            reports[split] = self._stage(
                f"{split}.tokens", partial(self._encode, split, reports[split])
            )
        (self._result / MANIFEST).unlink(missing_ok=True)
        manifest = {
            "identity": self._identity,
            "splits": self._splits,
            "cleaning": {split: _sum(of_split) for split, of_split in reports.items()},
            **({"corpora": reports} if "" not in reports["train"] else {}),
            "files": file_sizes(self._result),
        }
        # Beside the result, where a killed process may leave half a file.
        write_json(self._partial / MANIFEST, manifest)
        (self._partial / MANIFEST).rename(self._result / MANIFEST)
        self._result.rename(self._directory)
        shutil.rmtree(self._partial)

    def _discard_other_data(self) -> None:
        """Deletes stages that were made with other settings."""
        path = self._partial / "identity.json"
        is_same = path.exists() and read_json(path) == self._identity
        if not (is_same and self._result.is_dir()):
            shutil.rmtree(self._partial, ignore_errors=True)
            self._result.mkdir(parents=True)
            write_json(path, self._identity)

    def _stage(self, name: str, make: Callable[[], Reports]) -> Reports:
        """Runs a stage, unless it is complete; returns its reports.

        Raises:
            UserError: a corpus has no pairs left.
        """
        mark = self._partial / f"{name}.json"
        if mark.exists():
            logging.info("data: %s is complete already", name)
        else:
            with naming(self._partial):
                write_json(mark, make())
        reports = {corpus: CleaningReport(one) for corpus, one in read_json(mark).items()}
        for corpus, report in reports.items():
            if not report["kept"]:
                raise UserError(
                    f"the split {part_name(name.rpartition('.')[0], corpus)!r} has no sentence "
                    f"pairs left ({report.describe()}), expected at least one: check the corpus, "
                    "loosen Cleaning, or raise prepare.max_length."
                )
        return reports

    def _write_text(self, split: str) -> Reports:
        """Cleans a split and writes its text."""
        reports: Reports = {}
        variants = self._settings.variants if split == "train" else None
        with Progress(f"data: {split}: cleaning") as progress:

            def blocks() -> Iterator[list[Pair]]:
                cleaned = 0
                for part in parts_of(self._settings.corpus):
                    if split not in part.corpus.splits:
                        continue
                    # Named first, so that the order of a report does not depend on blocks.
                    reports[part.name] = CleaningReport(dict.fromkeys(ADDED, 0) if variants else {})
                    for pairs, report in self._clean(split, part):
                        progress.advance(report.total())
                        if variants:
                            first, cleaned = cleaned, cleaned + len(pairs)
                            pairs, added = variants.extend(pairs, first)
                            report.update(added)
                        reports[part.name].update(report)
                        yield [part.tagged(pair) for pair in pairs] if part.tag else pairs

            CleanText(self._result, split).write(blocks())
        return reports

    def _clean(self, split: str, part: Part) -> Iterator[tuple[list[Pair], CleaningReport]]:
        """Yields the pairs of a corpus in blocks, with a report on each; tags come later."""
        corpus, settings = self._settings.corpus, self._settings
        pairs = read_pairs(part.corpus, split, self._downloads)
        blocks = iter(lambda: list(islice(pairs, PAIRS_IN_BLOCK)), [])
        if split == "train":
            held_out = held_out_pairs(corpus, self._downloads)
            return clean(blocks, settings.cleaning, held_out, self._workers)
        # Held-out pairs are all translated and scored.
        return ((block, CleaningReport(kept=len(block))) for block in blocks)

    def _train_subwords(self, report: Counter[str]) -> Reports:
        """Makes the subword models from the training pairs of a report; has no reports."""
        settings, text = self._settings, CleanText(self._result, "train")
        pairs = report["kept"] - report[WORDS]
        shared = {SHARED_SUBWORDS: ("subwords", [0, 1])}
        own = {SOURCE_SUBWORDS: ("source_subwords", [0]), TARGET_SUBWORDS: ("subwords", [1])}
        for name, (parameter, sides) in (own if settings.source_subwords else shared).items():
            recipe = getattr(settings, parameter)
            recipe.train(_Sentences(text, settings.variants, pairs, sides), self._result / name)
        return {}

    def _encode(self, split: str, reports: Reports) -> Reports:
        """Writes the token store of a split; returns the reports with over-long pairs in them."""
        store = self._result / f"{split}.tokens"
        store.mkdir(exist_ok=True)
        counts = {corpus: report["kept"] for corpus, report in reports.items()}
        blocks = CleanText(self._result, split).blocks(counts)
        sizes = VocabSizes(*(model.size for model in open_pair(self._result)))
        encoder = _BlockEncoder(self._result, sizes, self._settings.max_length)
        total = sum(counts.values())
        changes: Counter[tuple[str, str]] = Counter()
        with ExitStack() as opened:
            files = {name: opened.enter_context((store / name).open("wb")) for name in STORE_FILES}
            progress = opened.enter_context(Progress(f"data: {split}: encoding", total=total))
            encoded = map_in_order(encoder, blocks, self._workers)
            for corpus, parts, lines, dropped, of_block in encoded:
                changes.update(of_block)
                for name, part in parts.items():
                    files[name].write(part)
                if dropped:
                    reports[corpus].update(kept=-dropped, over_long_subwords=dropped)
                progress.advance(lines)
        complete_token_store(store, sizes)
        for corpus, report in reports.items():
            logging.info("data: %s: %s", part_name(split, corpus), report.describe())
        for side in sorted({side for side, _ in changes}):
            counts = {one: count for (where, one), count in changes.items() if where == side}
            number = f"{sum(counts.values()):,} {side} lines"
            logging.info(f"data: {split}: the subwords change {number}, e.g. {min(counts)}")
        return reports


def _sum(reports: Reports) -> Counter[str]:
    """Returns the report on all corpora of a split."""
    return sum(reports.values(), Counter())


class _Sentences:
    """The sentences of one side of the training text, or of both sides in turn.

    Variants with random words are not among them.

    Args:
        text: of the split.
        variants: in the text.
        pairs: number of its pairs without those.
        sides: 0 for the source, 1 for the target.
    """

    def __init__(
        self, text: CleanText, variants: Variants | None, pairs: int, sides: Sequence[int]
    ) -> None:
        self._text, self._variants, self._pairs, self._sides = text, variants, pairs, sides

    def __len__(self) -> int:
        return len(self._sides) * self._pairs

    def __iter__(self) -> Iterator[str]:
        pairs = self._variants.without_words(self._text) if self._variants else self._text
        return (pair[side] for pair in pairs for side in self._sides)


@dataclasses.dataclass
class _BlockEncoder:
    """Encodes blocks of text; picklable.

    Attributes:
        directory: of the subword models.
        sizes: of their vocabularies.
        max_length: see `Preparation`.
    """

    directory: Path
    sizes: VocabSizes
    max_length: int

    @cached_property
    def _subwords(self) -> SubwordPair:
        return open_pair(self.directory)

    def __call__(
        self, block: TextBlock
    ) -> tuple[str, dict[str, bytes], int, int, Counter[tuple[str, str]]]:
        """Encodes a block.

        Returns:
            the block's corpus, bytes for each file of a token store by name, the numbers of pairs
            in the text and of those among them that are too long, and the `_changes` of both sides.
        """
        corpus, *texts = block
        lines = [text.decode().split("\n")[:-1] for text in texts]
        sides = [one.encode_block(own) for one, own in zip(self._subwords, lines, strict=True)]
        fits = np.maximum(*(lengths for _, lengths in sides)) <= self.max_length
        source, target = ((ids[np.repeat(fits, counts)], counts[fits]) for ids, counts in sides)
        parts = token_block(source, target, self.sizes)
        changes = sum(map(_changes, ("source", "target"), self._subwords, lines), Counter())
        return corpus, parts, len(fits), int(np.count_nonzero(~fits)), changes


def _changes(side: str, model: SubwordModel, lines: Sequence[str]) -> Counter[tuple[str, str]]:
    """Counts the lines with a character that the subwords write otherwise, by the first of them."""
    changed = {}
    for character in filter(str.split, set("".join(lines))):
        written = model.decode(model.encode([character])[0])
        if normalize("NFC", written) != normalize("NFC", character):
            changed[character] = f"{character!r} to {written!r}"
    first = (next(filter(None, map(changed.get, line)), None) for line in lines if changed)
    return Counter((side, change) for change in first if change)


def _check_identity(data: PreparedData, identity: dict[str, Any]) -> None:
    """Raises a `UserError` that names settings which differ from those of the prepared data."""
    existing = dict(data.identity)
    for name, model in zip(("source_subwords", "subwords"), data.subwords, strict=True):
        if name in existing and CONTENT in identity.get(name, {}):
            # GivenSubwords may be those that were trained for these data.
            existing[name] = {CONTENT: content_hash(model.model_path.read_bytes())}
    if differing := differing_values(existing, identity):
        raise UserError(
            f"{data.directory} was made with {'; '.join(differing)}: give another --data_dir, or "
            "delete that directory."
        )
