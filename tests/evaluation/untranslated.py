"""Dev evaluations without a search, for tests of something else."""

import pytest

from t2t_repro.decoding.search import Translation


class Untranslated:
    """Returns sources as translations: a search takes longer."""

    def __init__(self, *_):
        pass

    def translate(self, lines, first=1):
        return [[Translation(line, 0.0)] for line in lines]


def leave_untranslated(patch: pytest.MonkeyPatch) -> None:
    """Makes the dev evaluations of training runs use `Untranslated`."""
    patch.setattr("t2t_repro.training.training_run.Translator", Untranslated)
