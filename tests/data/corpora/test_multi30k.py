import gzip
from http.client import IncompleteRead
from pathlib import Path

import pytest

from t2t_repro.data.corpora import multi30k
from t2t_repro.data.corpora.multi30k import Multi30kCorpus
from t2t_repro.errors import UserError
from tests.real_corpora import corpus_folder

SIZES = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000, "test_2017_flickr": 1_000}


def write_like_the_repository(root: Path, languages=("en", "de"), compress_tok=False) -> Path:
    """Lays files out as in data/task1, each line saying which file it is in."""
    for folder in ("raw", "tok"):
        (root / folder).mkdir(parents=True)
    for stem, size in SIZES.items():
        for language in languages:
            for form, name in (("raw", f"{stem}"), ("tok", f"{stem}.lc.norm.tok")):
                lines = [f"{form} {stem} {language} {number}\n" for number in range(size)]
                data = "".join(lines).encode()
                path = root / form / f"{name}.{language}"
                if form == "raw" or compress_tok:
                    path, data = path.with_name(f"{path.name}.gz"), gzip.compress(data, 1)
                path.write_bytes(data)
    return root


@pytest.fixture(scope="module")
def public(tmp_path_factory) -> Path:
    return write_like_the_repository(tmp_path_factory.mktemp("public"))


@pytest.fixture
def web(public, monkeypatch) -> Path:
    """The folder behind the address that files are fetched from."""
    monkeypatch.setattr(multi30k, "BASE_URL", public.as_uri())
    return public


@pytest.mark.parametrize("form", ["raw", "tok"])
def test_what_is_missing_is_fetched_once_and_every_split_is_the_right_file(
    web, tmp_path, monkeypatch, form
):
    corpus = Multi30kCorpus("de", "en", pretokenized=form == "tok")
    corpus.prepare(tmp_path)
    for split, stem in zip(("train", "dev", "test", "test_2017_flickr"), SIZES, strict=True):
        pairs = list(corpus.read(split, tmp_path))
        assert len(pairs) == SIZES[stem]
        assert pairs[7] == (f"{form} {stem} de 7", f"{form} {stem} en 7")
    assert not list(tmp_path.rglob("*.partial"))

    monkeypatch.setattr(multi30k, "BASE_URL", "file:///gone")
    corpus.prepare(tmp_path)


def test_a_failing_network_says_what_to_do_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "BASE_URL", "file:///gone")
    with pytest.raises(UserError, match=r"cannot download file:///gone/raw/train.*local_dir"):
        Multi30kCorpus().prepare(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_answer_that_breaks_off_is_the_users_error(web, tmp_path, monkeypatch):
    def break_off(url, timeout):
        raise IncompleteRead(b"half")

    monkeypatch.setattr(multi30k.urllib.request, "urlopen", break_off)
    with pytest.raises(UserError, match="IncompleteRead"):
        Multi30kCorpus().prepare(tmp_path)


def test_a_file_that_was_not_written_whole_is_fetched_again(web, tmp_path, monkeypatch):
    write_bytes = Path.write_bytes

    def run_out_of_space(path, data):
        write_bytes(path, data[: len(data) // 2])
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", run_out_of_space)
        with pytest.raises(UserError, match="no space left"):
            Multi30kCorpus().prepare(tmp_path)
    Multi30kCorpus().prepare(tmp_path)


@pytest.mark.parametrize("inside", ["", "data/task1"])
@pytest.mark.parametrize("compress_tok", [False, True])
def test_a_local_folder_is_read_in_place_of_a_download(tmp_path, monkeypatch, inside, compress_tok):
    monkeypatch.setattr(multi30k, "BASE_URL", "file:///gone")
    write_like_the_repository(tmp_path / "local" / inside, compress_tok=compress_tok)
    for pretokenized in (False, True):
        corpus = Multi30kCorpus(pretokenized=pretokenized, local_dir=str(tmp_path / "local"))
        corpus.prepare(tmp_path / "downloads")
        assert len(list(corpus.read("dev", tmp_path / "downloads"))) == 1014
    assert not (tmp_path / "downloads").exists()


def test_local_folder_without_the_files_says_what_is_missing_and_where(tmp_path):
    with pytest.raises(UserError, match=rf"no file raw/train\.en .*in {tmp_path}; give as local"):
        Multi30kCorpus(local_dir=str(tmp_path)).prepare(tmp_path)


def test_reading_before_downloading_says_so(tmp_path):
    with pytest.raises(UserError, match="prepare"):
        next(Multi30kCorpus().read("train", tmp_path))


def test_a_shortened_split_is_refused_even_when_both_sides_agree(public, tmp_path):
    for language in ("en", "de"):
        for path in (public / "raw").glob(f"*.{language}.gz"):
            (tmp_path / "raw").mkdir(exist_ok=True)
            (tmp_path / "raw" / path.name).write_bytes(path.read_bytes())
        (tmp_path / "raw" / f"val.{language}.gz").write_bytes(gzip.compress(b"x\n" * 1013))
    with pytest.raises(UserError, match="1013 lines, expected 1014"):
        Multi30kCorpus(local_dir=str(tmp_path)).prepare(tmp_path)


def test_czech_has_no_second_test_set():
    assert Multi30kCorpus("en", "cs").splits == ("train", "dev", "test")
    assert Multi30kCorpus("en", "fr").splits[-1] == "test_2017_flickr"
    with pytest.raises(UserError, match=r"'test_2017_flickr'.*train, dev, test"):
        next(Multi30kCorpus("en", "cs").read("test_2017_flickr", Path()))


@pytest.mark.parametrize("languages", [("en", "ja"), ("german", "en"), ("de", "de")])
def test_languages_that_make_no_corpus_are_refused(languages):
    with pytest.raises(UserError, match="Multi30kCorpus"):
        Multi30kCorpus(*languages)


def test_descriptions_tell_direction_and_text_form_apart_but_not_where_files_lie():
    base = Multi30kCorpus().describe()
    assert base == Multi30kCorpus(local_dir="/elsewhere").describe()
    assert base != Multi30kCorpus("de", "en").describe()
    assert base != Multi30kCorpus(pretokenized=True).describe()


def test_the_real_data_where_they_are_at_hand():
    local = corpus_folder("multi30k")
    raw = Multi30kCorpus(local_dir=str(local))
    raw.prepare(Path())
    assert next(raw.read("test", Path()))[0] == "A man in an orange hat starring at something."
    tokenized = Multi30kCorpus(pretokenized=True, local_dir=str(local))
    # What the published figures are computed on.
    assert sum(len(target.split()) for _, target in tokenized.read("test", Path())) == 12_103
