"""Packages of Argos Translate: made, read, and refused."""

import json
import zipfile

import pytest

pytest.importorskip("ctranslate2")

from t2t_repro.decoding.loading import load_translator
from t2t_repro.decoding.settings import BeamSearch, power_penalty
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.ctranslate2.argos import write_argos_package
from t2t_repro.formats.ctranslate2.model import read_ctranslate2
from t2t_repro.formats.hugging_face.model import read_hugging_face
from t2t_repro.formats.imported import model_files, write_imported
from tests.formats.hugging_face.directory import write_marian_model

LINES = ["the red bird", "a tree, a house"]


def read(path):
    with model_files(path) as folder:
        return read_ctranslate2(folder)


@pytest.fixture(scope="module")
def package(translator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("argos") / "made"
    return write_argos_package(translator, "float32", folder, ("en", "de"), "1.2")


def test_a_package_is_as_argos_translate_has_them(package):
    assert [*package.parent.iterdir()] == [package]
    assert package.name == "translate-en_de-1_2.argosmodel"
    with zipfile.ZipFile(package) as archive:
        names = {name.partition("/")[2] for name in archive.namelist() if name[-1] != "/"}
        metadata = json.loads(archive.read("translate-en_de-1_2/metadata.json"))
    of_model = {f"model/{x}" for x in ("model.bin", "config.json", "shared_vocabulary.json")}
    assert names == of_model | {"metadata.json", "README.md", "sentencepiece.model"}
    assert (metadata["from_name"], metadata["to_code"]) == ("English", "de")


@pytest.mark.parametrize("below", [None, "", "model/model.bin"])
def test_a_package_comes_back_with_the_search_of_argos(below, package, translator, tmp_path):
    zipfile.ZipFile(package).extractall(tmp_path)
    place = package.parent if below is None else tmp_path / package.stem / below
    write_imported(tmp_path / "ours", read(place), "package", None)
    ours = load_translator(tmp_path / "ours")
    assert ours.settings.search == BeamSearch(4, 0.2, power_penalty)
    for one, other in zip(ours.score(LINES, LINES), translator.score(LINES, LINES), strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


def test_two_splitters_come_back_and_languages_are_refused(tmp_path):
    write_marian_model(tmp_path)
    model, theirs, *_ = read_hugging_face(tmp_path)
    ours = Translator([model], theirs.write(tmp_path))
    with pytest.raises(UserError, match=">>fra<<"):
        write_argos_package(ours, "float32", tmp_path / "out", ("en", "de"), "1.0")
    ours.tags.languages.clear()
    text = read(write_argos_package(ours, "float32", tmp_path / "out", ("en", "de"), "1.0")).text
    assert [x.file.model for x in text[:2]] == [x.file.model for x in theirs[:2]]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("bpe.model", "#version: 0.2", "bpe.model"),
        ("metadata.json", '{"type": "sbd"}', "type = 'sbd'"),
        ("metadata.json", '{"target_prefix": "__de__"}', "target_prefix"),
    ],
)
def test_other_packages_are_refused(name, content, said, package, tmp_path):
    zipfile.ZipFile(package).extractall(tmp_path)
    (tmp_path / package.stem / name).write_text(content)
    with pytest.raises(UserError, match=said):
        read(tmp_path / package.stem)


def test_a_package_without_a_model_is_called_by_its_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.argosmodel", "w") as archive:
        archive.writestr("../outside", "{}")
        archive.writestr("model.bin.zst", "")
    with pytest.raises(UserError, match=r"x\.argosmodel has model\.bin\.zst.*unpacked"):
        read(tmp_path / "x.argosmodel")
    assert [path.name for path in tmp_path.iterdir()] == ["x.argosmodel"]
