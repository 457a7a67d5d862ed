"""What is made is of one size, and of folders that are there."""

import subprocess

import pytest

import prepare
from tests.processes import CHECKOUT

GPU_DAY = CHECKOUT / "scripts" / "gpu_day.sh"


@pytest.fixture
def folders(tmp_path):
    for name in ("multi30k/tok", "multi30k/raw", "tfds/wmt14_translate/de-en"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def call(folder, *arguments):
    words = ["bash", GPU_DAY, "prepare", "--multi30k=multi30k", "--tfds=tfds", *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


def test_sizes_stay_what_they_were(tmp_path):
    path = tmp_path / "made" / "sizes.json"
    assert prepare.keep_sizes(path, "tiny")
    assert prepare.keep_sizes(path, "tiny")
    assert not prepare.keep_sizes(path, "full")
    assert path.read_text() == '"tiny"'


def test_what_was_made_for_a_rehearsal_is_not_taken_for_the_day(folders):
    assert prepare.keep_sizes(folders / "gpu_day" / "made" / "sizes.json", "tiny")
    done = call(folders)
    assert done.returncode == 2
    said = "gpu_day was begun with other --sizes than full: give another --out\n"
    assert done.stderr.endswith(said)
    assert [path.name for path in (folders / "gpu_day" / "made").iterdir()] == ["sizes.json"]


@pytest.mark.parametrize("missing", ["multi30k/raw", "tfds/wmt14_translate/de-en"])
def test_a_folder_that_is_not_there_is_said_before_anything_is_made(folders, missing):
    (folders / missing).rmdir()
    done = call(folders)
    assert done.returncode == 2
    assert "error: there is no folder " in done.stderr
    assert done.stderr.endswith(f"{missing}\n")
    assert "Traceback" not in done.stderr
    assert not (folders / "gpu_day").exists()
