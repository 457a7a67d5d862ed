"""Flags of a command that is not run."""

import pytest
from absl import flags

from t2t_repro.command_line import flags as shared


@pytest.fixture
def give(monkeypatch):
    """Gives flags their values; all have None by default."""

    def give(**values):
        known = flags.FlagValues()
        for name, value in values.items():
            flags.DEFINE_string(name, None, "", known)
            known[name].value = value
        known.mark_as_parsed()
        for module in (flags, shared):
            monkeypatch.setattr(module, "FLAGS", known)

    return give
