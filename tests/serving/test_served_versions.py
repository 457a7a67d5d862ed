"""A directory of versions that changes while it is looked at."""

import asyncio
import os
from pathlib import Path

from t2t_repro.serving.model_process import VersionLimits
from t2t_repro.serving.served_versions import ServedVersions


def test_a_version_may_vanish_while_it_is_looked_at(tmp_path, monkeypatch):
    vanishing = tmp_path / "3" / "variables"
    vanishing.mkdir(parents=True)
    scandir = os.scandir

    def vanish_first(path):
        if Path(path) == vanishing:
            vanishing.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanish_first)
    versions = ServedVersions("made", tmp_path, VersionLimits(60.0, 2**30, 1, 2**20))
    asyncio.run(versions.look())
    assert not vanishing.exists()
    assert not versions.is_served
