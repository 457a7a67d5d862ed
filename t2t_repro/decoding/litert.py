"""Translates with a LiteRT file that `formats.litert` wrote; this module needs no TensorFlow.

config.json:

    version              of the directory's form, 2
    max_source_length    the most ids of a source, EOS included
    trained_length       of a source that is translated well, at most
    beam_size            translations of a source
    codes                ids of a source that become the first of its target, and are no text
    forbidden_ids        of translations
    vocab_size           the number of target ids
    target_languages     the tags that may stand in front of a source, by the codes in them
"""

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from queue import LifoQueue
from typing import Any

import numpy as np

from t2t_repro.config.values import texts
from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.data.parallel import usable_cores
from t2t_repro.decoding.batch_plan import EncodedSentences, compute_batches, padded
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

    It translates some lines of similar length together on every core.

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
            config = read_json(directory / CONFIG)
            if config.get("version") != VERSION:
                raise ValueError(f"its version is {config.get('version')}, not {VERSION}")
            self.beam_size, self.trained_length = config["beam_size"], config["trained_length"]
            self._longest, self._codes = config["max_source_length"], config["codes"]
            # All share these bytes; each would map the file for itself.
            model = self.path.read_bytes()
            cores = usable_cores()
            loaded = [Interpreter(model_content=model, num_threads=1) for _ in range(cores)]
            runners = [interpreter.get_signature_runner() for interpreter in loaded]
            self.subwords = open_pair(directory)
            self.tags = Tags(self.subwords.source.pieces(), self.subwords.languages)
            inputs = runners[0].get_input_details()
            lists = directory / SHORTLIST
            self._shortlist = ShortlistFile.read(lists) if "among" in inputs else None
            never = {PAD_ID, *config["forbidden_ids"]} - {UNK_ID}
            self._never = np.isin(np.arange(config["vocab_size"]), [*never])
            # Some 16 hypotheses together: more take longer each.
            rows = inputs["source_ids"]["shape_signature"][0]
            self._tokens = 1 if rows == 1 else 256 // self.beam_size
            self._idle: LifoQueue[Any] = LifoQueue()
            for runner in runners:
                self._idle.put(runner)
                # The first call prepares the weights.
                shortest = [*[UNK_ID] * self._codes, EOS_ID]
                next(self._search(1, EncodedSentences([""], [shortest], set()), [0]))
        except BUGS:
            raise
        except Exception as error:
            # What libraries raise for damaged files is of any kind.
            received = f"{directory} is not usable ({reason_of(error)})"
            raise UserError(f"{received}: export the model again.") from error

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
            UserError: there are prefixes, or `n_best` is above the beam of the exported model.
        """
        if prefixes or not 1 <= n_best <= self.beam_size:
            problem = f"n_best is {n_best}, expected 1 ... {self.beam_size}"
            raise UserError(f"{problem}, the beam of the exported model, and no prefixes.")
        lines = texts("source texts", lines)
        self.tags.warn(lines, first)
        encoded = self.subwords.source.encode([line.strip() for line in lines])
        log_untrained(encoded, self.trained_length, first)
        sources = EncodedSentences.cut(lines, encoded, self._longest).without_blank()
        lengths = [*map(len, sources.ids)]
        cores = usable_cores()
        batches = group_by_length(lengths, min(self._tokens, -(-sum(lengths) // cores)))
        blank = [[Translation("", 0.0)] for _ in lines]
        search = partial(self._search, n_best, sources)
        results = compute_batches(search, batches, cores, blank, report)
        if first is not None:
            log_cut([best for best, *_ in results], first)
        return results

    def _search(
        self, n_best: int, sources: EncodedSentences, batch: Collection[int]
    ) -> Iterator[list[Translation]]:
        """Translates some sentences together, from their indices."""
        source_ids = padded([sources.ids[index] for index in batch])
        given = {"source_ids": source_ids, "n_best": np.array(n_best, np.int32)}
        if self._shortlist:
            given["among"] = self._shortlist.of_sentence(source_ids[0], self._never)
        run = self._idle.get()
        try:
            outputs = run(**given)
        finally:
            self._idle.put(run)
        shape = len(batch), self.beam_size, -1
        ids, scores = (outputs[name].reshape(shape) for name in ("ids", "scores"))
        of_lines = ids[:, :n_best, self._codes :], scores[:, :n_best, 0]
        for index, its_ids, its_scores in zip(batch, *of_lines, strict=True):
            translations = decoded(its_ids, its_scores, self.subwords.target.decode)
            yield [one._replace(truncated=index in sources.truncated) for one in translations]
