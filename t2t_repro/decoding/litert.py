"""Translates with a LiteRT file that `formats.litert` wrote; this module needs no TensorFlow.

config.json:

    version              of the directory's form, 2
    max_source_length    the most ids of a source, EOS included
    trained_length       of a source that is translated well, at most
    beam_size            translations of a source
    codes                ids of a source that become the first of its target, and are no text
    forbidden_ids        of translations
    vocab_size           the number of target ids
    special_ids          PAD, EOS and UNK
    target_languages     the tags that may stand in front of a source, by the codes in them
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path
from queue import LifoQueue
from typing import Any

import numpy as np

from t2t_repro.config.values import texts
from t2t_repro.data.parallel import usable_cores
from t2t_repro.decoding.search import UNFILLED_SCORE, Translation, log_cut, log_untrained
from t2t_repro.decoding.shortlist_file import ShortlistFile
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_json
from t2t_repro.progress import Report
from t2t_repro.text.subword_model import open_pair
from t2t_repro.text.tags import Tags
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID

MODEL, CONFIG, SHORTLIST, VERSION = "model.tflite", "config.json", "shortlist.npz", 2

_HYPOTHESES = 32
"""That a core scores together: of as many lines."""


class LiteRTTranslator:
    """An `Engine` that translates some lines of similar length together on every core.

    Args:
        directory: that `export --format=litert` wrote.

    Attributes:
        path: of the model's file.
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
            # All share these bytes; each would map the file for itself.
            model, cores = self.path.read_bytes(), usable_cores()
            runners = [Interpreter(model_content=model, num_threads=1) for _ in range(cores)]
        except (OSError, ValueError) as error:
            received = f"{directory} is not usable ({reason_of(error)})"
            raise UserError(f"{received}: export the model again.") from error
        self.subwords = open_pair(directory)
        self.tags = Tags(self.subwords.source.pieces(), self.subwords.languages)
        self.beam_size, self.trained_length = config["beam_size"], config["trained_length"]
        self._longest, self._codes = config["max_source_length"], config["codes"]
        lists = directory / SHORTLIST
        self._shortlist = ShortlistFile.read(lists) if lists.exists() else None
        never = {PAD_ID, *config["forbidden_ids"]} - {UNK_ID}
        self._never = np.isin(np.arange(config["vocab_size"]), [*never])
        # The list of ids is a sentence's own.
        self._rows = 1 if self._shortlist else max(1, _HYPOTHESES // self.beam_size)
        self._threads = ThreadPoolExecutor(cores)
        self._idle: LifoQueue[Any] = LifoQueue()
        for one in runners:
            self._idle.put(one.get_signature_runner())
            # The first call prepares the weights.
            self._search(1, [[*[UNK_ID] * self._codes, EOS_ID]])

    def translate(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        prefixes: Iterable[str] | None = None,
        *,
        first: int | None = 1,
        report: Report = None,
    ) -> list[list[Translation]]:
        """Translates lines; see `Translator.translate`. Prefixes are refused."""
        if prefixes or not 1 <= n_best <= self.beam_size:
            beam = f"1 ... {self.beam_size}, the beam of the exported model, and no prefixes."
            raise UserError(f"n_best is {n_best}, expected {beam}")
        lines = texts("source texts", lines)
        self.tags.warn(lines, first)
        encoded = self.subwords.source.encode([line.strip() for line in lines])
        log_untrained(encoded, self.trained_length, first)
        some = [n for n, ids in enumerate(encoded) if lines[n].strip() and len(ids) > 1]
        some.sort(key=lambda n: -len(encoded[n]))
        rows = min(self._rows, -(-len(some) // usable_cores())) or 1
        groups = [some[start : start + rows] for start in range(0, len(some), rows)]
        sources = [[encoded[n] for n in group] for group in groups]
        found: dict[int, list[Translation]] = {}
        searched = self._threads.map(partial(self._search, n_best), sources)
        for group, of_group in zip(groups, searched, strict=True):
            found.update(zip(group, of_group, strict=True))
            if report:
                report(len(found) / len(some))
        results = [found.get(n, [Translation("", 0.0)]) for n in range(len(lines))]
        if first is not None:
            log_cut([best for best, *_ in results], first)
        return results

    def _search(self, n_best: int, sources: list[list[int]]) -> list[list[Translation]]:
        """Translates the ids of lines together."""
        longest = self._longest
        cut = [ids[: longest - 1] + ids[-1:] if len(ids) > longest else ids for ids in sources]
        source = np.array([*zip_longest(*cut, fillvalue=PAD_ID)], np.int32).T
        given = {"source_ids": source, "n_best": np.array(n_best, np.int32)}
        if self._shortlist:
            given["among"] = self._shortlist.of_sentence(cut[0], self._never)
        run = self._idle.get()
        try:
            found = run(**given)
        finally:
            self._idle.put(run)
        ids, scores = found["ids"][..., self._codes :], found["scores"]
        decode = self.subwords.target.decode
        return [
            [
                Translation(decode(one), float(score), EOS_ID in one, len(of_line) > longest)
                for one, score in zip(*of_row, strict=True)
                if score > UNFILLED_SCORE / 2
            ][:n_best]
            for of_line, *of_row in zip(sources, ids, scores, strict=True)
        ]
