"""Answers requests with a `Translator`, as an exported model would.

Names of signatures, inputs and outputs are those of the SavedModel, see docs/serving.md.
"""

from collections.abc import Callable, Sequence
from inspect import signature

from t2t_repro.decoding.search import UNFILLED_SCORE, Translation
from t2t_repro.decoding.translator import Translator
from t2t_repro.serving.predict import Columns


class Answers:
    """Computes the outputs of a signature from its inputs.

    Args:
        translator: called by several threads, so it should have one worker.

    Attributes:
        signatures: the function of each signature.
        inputs: the names of the inputs of each signature.
    """

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self.signatures: dict[str, Callable[..., Columns]] = {
            "serving_default": self.translate,
            "nbest": self.translate_n_best,
            "prefix": self.translate_from_prefix,
            "score": self.score,
        }
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
        found = self._translator.translate(source, prefixes=prefix, first=None)
        return {
            "translation": [best.text for best, *_ in found],
            "score": [best.score for best, *_ in found],
            "truncated": self._translator.truncated(source, prefix),
        }

    def translate_n_best(self, source: Sequence[str]) -> Columns:
        """Finds the beam's translations of each text; rows are filled up, `count` are real."""
        beam_size = self._translator.settings.search.beam_size
        found = self._translator.translate(source, beam_size, first=None)
        no_translation = Translation("", UNFILLED_SCORE)
        full = [[*some, *[no_translation] * (beam_size - len(some))] for some in found]
        return {
            "translation": [[translation.text for translation in some] for some in full],
            "score": [[translation.score for translation in some] for some in full],
            "count": list(map(len, found)),
            "truncated": self._translator.truncated(source),
        }

    def score(self, source: Sequence[str], target: Sequence[str]) -> Columns:
        """Scores given translations."""
        scores = self._translator.score(source, target, first=None)
        return {
            "log_probability": [pair.log_probability for pair in scores],
            "length": [len(pair.subwords) for pair in scores],
            "truncated": [pair.truncated for pair in scores],
        }
