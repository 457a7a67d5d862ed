"""A directory of versions that changes while it is looked at."""

import asyncio
import os
from pathlib import Path

import pytest

from t2t_repro.errors import UserError
from t2t_repro.serving import served_versions
from t2t_repro.serving.model_process import ModelProcess, VersionError, VersionLimits
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


def test_a_number_that_no_message_can_hold_is_no_version(tmp_path):
    (tmp_path / str(2**63)).mkdir()
    versions = ServedVersions("made", tmp_path, VersionLimits(60.0, 2**30, 1, 2**20))
    with pytest.raises(UserError, match="holds no version of a model"):
        asyncio.run(versions.start())


def test_where_no_process_can_be_started_the_next_attempt_waits(tmp_path, monkeypatch):
    (tmp_path / "7").mkdir()
    attempts = []

    async def start(path, *_):
        attempts.append(path.name)
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(ModelProcess, "start", start)
    monkeypatch.setattr(served_versions, "_FIRST_PAUSE", 60.0)

    async def look(versions, count):
        for _ in range(count):
            await versions.look()
            await versions.wait(0.01)

    async def run():
        versions = ServedVersions("made", tmp_path, VersionLimits(60.0, 2**30, 1, 2**20))
        message = "version 7: it cannot be loaded now: Too many open files"
        with pytest.raises(UserError, match=message):
            await versions.start()
        await look(versions, 20)
        assert attempts == ["7"]
        # Other files, another attempt; and the same ones after the pause.
        (tmp_path / "7" / "file").write_text("more")
        await look(versions, 20)
        assert len(attempts) == 2
        pause = versions._pauses[7]
        versions._pauses[7] = pause._replace(end=pause.end - 60.0)
        await look(versions, 20)
        assert len(attempts) == 3

    asyncio.run(run())


def test_nothing_in_the_working_directory_is_imported(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("open('imported', 'w')\n")
    monkeypatch.chdir(tmp_path)
    # So little memory that it ends as soon as it began.
    limits = VersionLimits(60.0, 2**20, 1, 2**20)
    with pytest.raises(VersionError):
        asyncio.run(ModelProcess.start(tmp_path, "made", 1, limits))
    assert not (tmp_path / "imported").exists()
