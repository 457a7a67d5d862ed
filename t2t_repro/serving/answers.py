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
        return self._best(source, None)

    def translate_from_prefix(self, source: Sequence[str], prefix: Sequence[str]) -> Columns:
        """Finds the best translation of each text that begins with its prefix."""
        return self._best(source, prefix)

    def _best(self, source: Sequence[str], prefix: Sequence[str] | None) -> Columns:
        found, truncated = self._translate(source, 1, prefix)
        return {
            "translation": [best.text for best, *_ in found],
            "score": [best.score for best, *_ in found],
            "finished": [best.finished for best, *_ in found],
            "truncated": truncated,
        }

    def _translate(
        self, source: Sequence[str], n_best: int, prefix: Sequence[str] | None = None
    ) -> tuple[list[list[Translation]], list[bool]]:
        """Returns the translations of each text, and whether it was cut off."""
        if self._language is not None:
            rows = translate_split(self._translator, source, self._language)
            best = [[Translation(*row[:2], row.finished)] for row in rows]
            return best, [row.truncated for row in rows]
        found = self._translator.translate(source, n_best, prefix, first=None)
        return found, self._translator.truncated(source, prefix)

    def translate_n_best(self, source: Sequence[str]) -> Columns:
        """Finds the beam's translations of each text; rows are filled up, `count` are real."""
        beam_size = self._translator.settings.search.beam_size
        found, truncated = self._translate(source, beam_size)
        no_translation = Translation("", UNFILLED_SCORE)
        full = [[*some, *[no_translation] * (beam_size - len(some))] for some in found]
        return {
            "translation": [[translation.text for translation in some] for some in full],
            "score": [[translation.score for translation in some] for some in full],
            "finished": [[translation.finished for translation in some] for some in full],
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
