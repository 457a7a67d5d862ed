"""Dev evaluations without a search, for tests of something else."""

from unittest.mock import MagicMock

import pytest

from t2t_repro.decoding.search import Translation


def leave_untranslated(patch: pytest.MonkeyPatch) -> None:
    """Has every dev evaluation take its sources for translations: a search takes longer."""
    translator = MagicMock()
    translator.return_value.translate = lambda lines: [[Translation(x, 0.0)] for x in lines]
    patch.setattr("t2t_repro.training.dev_evaluation.Translator", translator)
