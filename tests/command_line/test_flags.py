"""Values of the flags that commands share, and checks of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from t2t_repro.command_line import flags
from t2t_repro.config.gin_files import configure
from t2t_repro.decoding.settings import TranslatorSettings
from t2t_repro.errors import UserError


def test_a_path_is_on_this_machine():
    for wrong in ("", "gs://bucket/a", "a*", "a\n"):
        with pytest.raises(ValueError, match="on this machine"):
            flags._Path().parse(wrong)
    assert flags._Path().parse("~/a") == str(Path.home() / "a")


def test_a_run_has_directories_of_the_name_of_its_experiment(give):
    give(gin_file="gin/mine.gin", data_dir=None, model_dir="other")
    assert flags.run_directory("data_dir") == Path("runs/mine/data")
    assert flags.run_directory("model_dir") == Path("other")


def test_the_content_of_a_glossary_determines_outputs(give, tmp_path):
    model: Any = SimpleNamespace(models=[], subwords=SimpleNamespace(checksum=str))
    (tmp_path / "terms").write_text("a\n")
    bindings = ["Translator.grammar = @Glossary", f"Glossary.file = '{tmp_path}/terms'"]
    for params, content in (([], None), (bindings, "610a")):
        give(n_best=2)
        configure(None, params, [TranslatorSettings])
        found = flags.decoding_settings(model, "latest", ["n_best"])
        assert (found["--glossary"], found["--n_best"]) == (content, 2)


def test_a_new_directory_is_missing_or_empty(give, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name, may_exist in (("new", False), ("empty", False), (".", True)):
        give(export_dir=str(tmp_path / name))
        flags.check_new("export_dir", may_exist)
    for name, may_exist in ((".", False), ("file", True)):
        give(export_dir=str(tmp_path / name))
        with pytest.raises(UserError, match="--export_dir"):
            flags.check_new("export_dir", may_exist)
