"""Answers requests with a `Translator`, as an exported model would.

Names of signatures, inputs and outputs are those of the SavedModel, see docs/serving.md.
"""

from collections.abc import Callable, Sequence
from inspect import signature

from t2t_repro.decoding.search import UNFILLED_SCORE, Translation
from t2t_repro.decoding.sentences import translate_split
from t2t_repro.decoding.translator import Translator
from t2t_repro.serving.predict import Columns


class Answers:
    """Computes the outputs of a signature from its inputs.

    Args:
        translator: called by several threads, so it should have one worker.
        language: by which texts are split into sentences; None if they are not. "nbest" then has
            one translation of each text, and "prefix" is not served.

    Attributes:
        signatures: the function of each signature.
        inputs: the names of the inputs of each signature.
    """

    def __init__(self, translator: Translator, language: str | None = None) -> None:
        self._translator = translator
        self._language = language
        self.signatures: dict[str, Callable[..., Columns]] = {
            "serving_default": self.translate,
            "nbest": self.translate_n_best,
            "prefix": self.translate_from_prefix,
            "score": self.score,
        }
        if language is not None:
            del self.signatures["prefix"]
        self.inputs = {
            name: list(signature(function).parameters) for name, function in self.signatures.items()
        }

    def translate(self, source: Sequence[str]) -> Columns:
        """Finds the best translation of each text."""
        return self._best(source)

    def translate_from_prefix(self, source: Sequence[str], prefix: Sequence[str]) -> Columns:
        """Finds the best translation of each text that begins with its prefix."""
        return self._best(source, prefix)

    def translate_n_best(self, source: Sequence[str]) -> Columns:
        """Finds the beam's translations of each text; rows are filled up, `count` are real."""
        return self._n_best(source, self._translator.settings.search.beam_size)

    def _best(self, source: Sequence[str], prefix: Sequence[str] | None = None) -> Columns:
        found = self._n_best(source, 1, prefix)
        of_text = "translation", "score", "finished"
        best = {name: [first for first, *_ in found[name]] for name in of_text}
        return {**best, "truncated": found["truncated"]}

    def _n_best(
        self, source: Sequence[str], n_best: int, prefix: Sequence[str] | None = None
    ) -> Columns:
        if self._language is not None:
            rows = translate_split(self._translator, source, self._language)
            found = [[Translation(*row[:2], row.finished)] for row in rows]
            truncated = [row.truncated for row in rows]
        else:
            found = self._translator.translate(source, n_best, prefix, first=None)
            truncated = self._translator.truncated(source, prefix)
        no_translation = Translation("", UNFILLED_SCORE)
        full = [[*some, *[no_translation] * (n_best - len(some))] for some in found]
        return {
            "translation": [[one.text for one in some] for some in full],
            "score": [[one.score for one in some] for some in full],
            "finished": [[one.finished for one in some] for some in full],
            "count": list(map(len, found)),
            "truncated": truncated,
        }

    def score(self, source: Sequence[str], target: Sequence[str]) -> Columns:
        """Scores given translations."""
        scores = self._translator.score(source, target, first=None)
        return {
            "log_probability": [pair.log_probability for pair in scores],
            "length": [len(pair.subwords) for pair in scores],
            "truncated": [pair.truncated for pair in scores],
        }
