"""Checkpoints of the original, imported by the command line: T2T's own ids come out."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_repro.data.t2t_subwords import T2TSubwords
from t2t_repro.training.model_directory import ModelDirectory
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.test_oracle_beam_search import BEAM, Decoder
from tests.oracle import VARIANTS, oracle_arrays, oracle_folder

EXTRA = 10
STEPS = {"paper": 1200, "v3": 3400}


def run(module, *flags, given=None):
    done = subprocess.run(
        [sys.executable, "-m", f"t2t_repro.{module}", *flags],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def vocabulary(variant, size):
    """A vocabulary in which id 14 is the word u14, so that every sentence of ids is a text.

    The characters that a vocabulary must have take ids that no tested sentence holds.
    """
    arrays = oracle_arrays(variant)
    used = set(arrays["batch1/source_ids"].ravel())
    used |= set(arrays[f"decode_early1/beam4_top1_extra{EXTRA}/ids"].ravel())
    subwords = ["<pad>_", "<EOS>_", *(f"u{i}_" for i in range(2, size))]
    free = (i for i in range(2, size) if i not in used)
    for character in "\\_u;0123456789":
        subwords[next(free)] = character
    return "".join(f"'{subword}'\n" for subword in subwords)


def text(ids):
    words = []
    for token in ids:
        if token in (EOS_ID, PAD_ID):
            break
        words.append(f"u{token}")
    return " ".join(words)


@pytest.fixture(scope="module", params=VARIANTS)
def imported(request, tmp_path_factory):
    """The variant's name, and the model directory that the command line made of it."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = oracle_folder(request.param) / "checkpoint"
    (folder / "vocab").write_text(vocabulary(request.param, 96))
    flags = (f"--checkpoint={checkpoint}", f"--vocabulary={folder / 'vocab'}")
    assert run("import_t2t", *flags, f"--model_dir={folder / 'model'}") == ""
    # Complete in itself: nothing is read from where it came.
    (folder / "vocab").unlink()
    (folder / "model").rename(folder / "moved")
    assert [path.name for path in folder.iterdir()] == ["moved"]
    return request.param, folder / "moved"


def test_the_model_directory(imported):
    variant, path = imported
    directory = ModelDirectory(path)
    assert directory.checkpoint() == str(path / "checkpoints" / f"step-{STEPS[variant]}")
    assert isinstance(directory.subwords(), T2TSubwords)
    arrays = oracle_arrays(variant)
    theirs = sorted(a.tobytes() for name, a in arrays.items() if name.startswith("transformer/"))
    assert sorted(weight.tobytes() for weight in directory.load_model().get_weights()) == theirs


@pytest.mark.parametrize("n_best", [1, 4])
def test_beam_search_gives_the_originals_ids(imported, n_best):
    variant, path = imported
    decoder = Decoder(variant)
    decoder.model = ModelDirectory(path).load_model()
    found = decoder.decode("decode", EXTRA, BEAM, n_best)
    expected = decoder.arrays[f"decode/beam4_top{n_best}_extra{EXTRA}/ids"]
    expected = expected.reshape(len(expected), n_best, -1)
    np.testing.assert_array_equal(found.ids[..., : expected.shape[-1]], expected)


def test_translate_and_evaluate_give_the_originals_ids(imported, tmp_path):
    variant, path = imported
    arrays = oracle_arrays(variant)
    source = arrays["batch1/source_ids"][arrays["decode_early1/rows"]]
    expected = [text(ids) for ids in arrays[f"decode_early1/beam4_top1_extra{EXTRA}/ids"]]
    lines = "".join(text(ids) + "\n" for ids in source)
    length = f"--gin_param=Translator.max_extra_length = {EXTRA}"
    assert run("translate", f"--model_dir={path}", length, given=lines).splitlines() == expected

    (tmp_path / "source").write_text(lines)
    (tmp_path / "reference").write_text("".join(line + "\n" for line in expected))
    files = (f"--source={tmp_path / 'source'}", f"--reference={tmp_path / 'reference'}")
    assert "BLEU 100.00" in run("evaluate", f"--model_dir={path}", length, *files)
