"""Translates with a LiteRT file that `formats.litert` wrote; this module needs no TensorFlow.

config.json:

    version              version of this format, 2
    max_source_length    the most ids of a source, EOS included
    trained_length       the most ids of a source that is translated well
    beam_size            the most translations of a source
    codes                the number of ids of a source that become the first of its target: codes of
                         languages, not text
    forbidden_ids        ids that translations must not contain
    vocab_size           the number of target ids
    target_languages     the tags that may stand in front of a source, by the codes in them
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from queue import LifoQueue
from typing import Any

import numpy as np

from t2t_repro.config.values import texts
from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.data.parallel import usable_cores
from t2t_repro.decoding.batch_plan import EncodedSentences, compute_batches
from t2t_repro.decoding.search import Translation, decoded, log_cut, log_untrained
from t2t_repro.decoding.shortlist_file import ShortlistFile
from t2t_repro.errors import BUGS, UserError, reason_of
from t2t_repro.files import read_json
from t2t_repro.progress import Report
from t2t_repro.text.subword_model import open_pair
from t2t_repro.text.tags import Tags
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

MODEL, CONFIG, SHORTLIST, VERSION = "model.tflite", "config.json", "shortlist.npz", 2


class LiteRTTranslator:
    """An `Engine` that reads a LiteRT file.

    It translates batches of lines of similar length in parallel, one on every core.

    Args:
        directory: an export of `export --format=litert`.

    Attributes:
        path: path of the model's file.
        subwords, tags, beam_size, trained_length: see `Engine`.
        aligns: False.
        align, score: None.

    Raises:
        UserError: the directory is of another form, or something in it is missing or damaged.
    """

    aligns = False
    align = score = None

    def __init__(self, directory: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.path = directory / MODEL
        try:
            self._load(directory, Interpreter)
        except BUGS:
            raise
        except Exception as error:
            # The libraries raise exceptions of any class for damaged files.
            problem = f"{directory} is not usable ({reason_of(error)})"
            raise UserError(f"{problem}: export the model again.") from error

    def _load(self, directory: Path, interpreter: Callable[..., Any]) -> None:
        """Reads the files of the directory, and prepares an interpreter for each core.

        Args:
            directory: see the class.
            interpreter: the class of LiteRT's interpreters.
        """
        config = read_json(directory / CONFIG)
        if config.get("version") != VERSION:
            raise ValueError(f"its version is {config.get('version')}, not {VERSION}")
        self.beam_size, self.trained_length = config["beam_size"], config["trained_length"]
        self._longest, self._codes = config["max_source_length"], config["codes"]
        # All interpreters share these bytes; given a path, each would map the file again.
        model = self.path.read_bytes()
        loaded = [interpreter(model_content=model, num_threads=1) for _ in range(usable_cores())]
        runners = [one.get_signature_runner() for one in loaded]
        self.subwords = open_pair(directory)
        self.tags = Tags(self.subwords.source.pieces(), self.subwords.languages)
        inputs = runners[0].get_input_details()
        self._shortlist = ShortlistFile.read(directory / SHORTLIST) if "among" in inputs else None
        never = {PAD_ID, *config["forbidden_ids"]} - {UNK_ID}
        self._never = np.isin(np.arange(config["vocab_size"]), [*never])
        # A file takes one line at a time, or batches of any size (-1): larger ones than these are
        # slower.
        batch_size = inputs["source_ids"]["shape_signature"][0]
        self._tokens_per_batch = 1 if batch_size == 1 else 256 // self.beam_size
        self._idle: LifoQueue[Any] = LifoQueue()
        no_words = EncodedSentences([""], [[*[UNK_ID] * self._codes, EOS_ID]], set())
        for runner in runners:
            # The first call of a runner prepares its weights. A search takes the last one put, and
            # puts it back.
            self._idle.put(runner)
            next(self._search(1, no_words, [0]))

    def translate(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        prefixes: Iterable[str] | None = None,
        *,
        first: int | None = 1,
        report: Report = None,
    ) -> list[list[Translation]]:
        """Translates lines; see `Translator.translate`. Prefixes are refused.

        Raises:
            UserError: there are prefixes, or n_best is not in 1 ... beam_size.
        """
        if prefixes:
            raise UserError("a LiteRT model takes no prefixes: translate with the model directory.")
        if not 1 <= n_best <= self.beam_size:
            problem = f"n_best is {n_best}, expected 1 ... {self.beam_size}"
            raise UserError(f"{problem}, the beam size of the exported model: ask for fewer.")
        lines = texts("source texts", lines)
        self.tags.warn(lines, first)
        encoded = self.subwords.source.encode([line.strip() for line in lines])
        log_untrained(encoded, self.trained_length, first)
        sources = EncodedSentences.cut(lines, encoded, self._longest).with_blanks_emptied()
        lengths = [*map(len, sources.ids)]
        cores = usable_cores()
        # Smaller batches for few lines, so that every core has some: ids per core, rounded up.
        batches = group_by_length(lengths, min(self._tokens_per_batch, -(-sum(lengths) // cores)))
        search = partial(self._search, n_best, sources)
        blank = [[Translation("", 0.0)] for _ in lines]
        results = compute_batches(search, batches, cores, blank, report)
        if first is not None:
            log_cut([best for best, *_ in results], first)
        return results

    def _search(
        self, n_best: int, sources: EncodedSentences, batch: Collection[int]
    ) -> Iterator[list[Translation]]:
        """Yields the translations of each sentence of a batch, from their indices."""
        source_ids = sources.padded(batch)
        inputs = {"source_ids": source_ids, "n_best": np.array(n_best, np.int32)}
        if self._shortlist:
            # A file with a shortlist takes one line at a time.
            inputs["among"] = self._shortlist.of_sentence(source_ids[0], self._never)
        runner = self._idle.get()
        try:
            outputs = runner(**inputs)
        finally:
            self._idle.put(runner)
        # A file for one line at a time returns arrays without the axis of the batch.
        all_ids = outputs["ids"].reshape(len(batch), self.beam_size, -1)[:, :n_best, self._codes :]
        all_scores = outputs["scores"].reshape(len(batch), self.beam_size)[:, :n_best]
        for index, ids, scores in zip(batch, all_ids, all_scores, strict=True):
            translations = decoded(ids, scores, self.subwords.target.decode)
            cut = index in sources.truncated
            yield [translation._replace(truncated=cut) for translation in translations]
