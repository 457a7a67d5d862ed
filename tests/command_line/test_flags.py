"""Values of the flags that commands share, and checks of them."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t2t_repro.command_line import flags
from t2t_repro.errors import UserError


def test_a_path_is_on_this_machine():
    for wrong in ("", "gs://bucket/a", "a*", "a?", "[a", "a\n"):
        with pytest.raises(ValueError, match="on this machine"):
            flags._Path().parse(wrong)
    assert flags._Path().parse("~/a") == str(Path.home() / "a")


def test_a_run_has_directories_of_the_name_of_its_experiment(give):
    give(gin_file="gin/mine.gin", data_dir=None, model_dir="other")
    directories = [flags.run_directory(name) for name in ("data_dir", "model_dir")]
    assert directories == [Path("runs/mine/data"), Path("other")]


def test_flags_that_need_whole_lines_are_refused_with_sentences(give):
    for is_split, language in ((True, "de"), (None, None)):
        give(split_sentences=is_split, source_language="de", n_best=None, glossary="terms")
        assert flags.split_language() == language
    give(split_sentences=True, n_best=2)
    with pytest.raises(UserError, match="--n_best and --split_sentences"):
        flags.split_language()


def test_the_content_of_a_glossary_determines_outputs(give, tmp_path):
    model: Any = SimpleNamespace(models=[], subwords=SimpleNamespace(checksum=str))
    (tmp_path / "terms").write_text("a\n")
    for glossary, content in ((None, None), (str(tmp_path / "terms"), "610a")):
        give(glossary=glossary, n_best=2)
        found = flags.decoding_settings(model, "latest", ["n_best"])
        assert (found["--glossary"], found["--n_best"]) == (content, 2)


@pytest.mark.parametrize(
    ("name", "may_exist", "is_refused"),
    [
        ("new", False, False),
        ("empty", False, False),
        ("full", False, True),
        ("full", True, False),
        ("full/file", True, True),
    ],
)
def test_a_new_directory_is_missing_or_empty(give, tmp_path, name, may_exist, is_refused):
    for folder in ("empty", "full"):
        (tmp_path / folder).mkdir()
    (tmp_path / "full" / "file").touch()
    give(export_dir=str(tmp_path / name))
    with pytest.raises(UserError, match="--export_dir") if is_refused else nullcontext():
        flags.check_new("export_dir", may_exist)
