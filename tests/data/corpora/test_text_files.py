import json
from pathlib import Path

import pytest

from t2t_repro.data.corpora.mixture import held_out_pairs
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.errors import UserError
from tests.data.test_line_files import write


@pytest.fixture
def dev(tmp_path) -> str:
    return write(tmp_path / "dev.tsv", "d\tD\n")


def test_pairs_columns_plain_and_compressed_are_read_one_after_the_other(tmp_path, dev):
    a = (write(tmp_path / "a.en", "one\ntwo\n"), write(tmp_path / "a.de.gz", "eins\nzwei\n"))
    b = write(tmp_path / "b.tsv.gz", "three\tdrei\n")
    c = [write(tmp_path / "c.en", "four\n"), write(tmp_path / "c.de", "vier")]
    corpus = TextFilesCorpus(train=(a, b, c), dev=dev, test=a, more_tests={"test_2": dev})
    corpus.prepare(tmp_path)
    assert corpus.splits == ("train", "dev", "test", "test_2")
    pairs = [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier")]
    assert list(corpus.read("train", tmp_path)) == pairs
    assert list(corpus.read("test", tmp_path)) == pairs[:2]
    assert list(held_out_pairs(corpus, tmp_path)) == [("d", "D"), *pairs[:2], ("d", "D")]


def test_misaligned_files_are_refused(tmp_path, dev):
    pair = (write(tmp_path / "a.en", "1\n2\n3\n"), write(tmp_path / "a.de", "1\n2\n"))
    corpus = TextFilesCorpus(pair, dev)
    with pytest.raises(UserError, match=r"a\.en has 3 lines, .*a\.de has 2 lines;"):
        corpus.prepare(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", b"a\tb\na\xff\tb\n", r"x\.tsv, line 2: byte 0xff at position 1 .*UTF-8"),
        ("x.tsv", b"a\tb\na b\n", r"x\.tsv, line 2: 1 tab-separated columns, expected 2"),
        ("x.tsv", b"a\tb\rc\td\r", r"x\.tsv ends its lines with CR alone"),
        ("x.tsv", b" \tb\na\t\xc2\xa0\n\t\n", r"x\.tsv: no line has text"),
        ("x.tsv", b'<?xml version="1.0"?>\n<tmx>', r"x\.tsv is TMX or other XML"),
        ("x.tsv", b'\xef\xbb\xbf[\n{"en": "a"}]\n', r"x\.tsv is JSON"),
        ("x.csv.gz", b"a,b\n", r"x\.csv\.gz is CSV"),
        ("x.tsv", b"PK\x03\x04" + bytes(9), r"x\.tsv is a zip archive or a document: unzip"),
        ("x.gz", bytes(257) + b"ustar", r"x\.gz is a tar archive"),
        ("x.bz2", "\ufeffa\tb\n".encode("utf-16-le"), r"x\.bz2 is UTF-16: iconv"),
        ("x.tsv", "\ufeffa\tb\n".encode("utf-32-le"), r"x\.tsv is UTF-32: iconv"),
        ("x.tsv", "a\tb\n".encode("utf-16-le"), r"x\.tsv is UTF-16: iconv"),
    ],
)
def test_unusable_content_is_one_line_with_file_and_line(tmp_path, dev, name, content, message):
    corpus = TextFilesCorpus(write(tmp_path / name, content), dev)

    def use() -> None:
        corpus.prepare(tmp_path)
        list(corpus.read("train", tmp_path))

    with pytest.raises(UserError, match=message):
        use()


def test_files_of_two_columns_are_not_the_sides_of_a_pair(tmp_path, dev):
    (tmp_path / "link.tsv").symlink_to(dev)
    for pair, message in {
        (dev, write(tmp_path / "e.tsv", "e\tE\n")): r"dev\.tsv, line 1: 2 .*expected 1",
        (dev, str(tmp_path / "link.tsv")): "different files",
        (write(tmp_path / "a.en", "a\n"), write(tmp_path / "a.csv", "a,b\n")): "a.csv is CSV",
    }.items():
        with pytest.raises(UserError, match=message):
            TextFilesCorpus(dev, pair).prepare(tmp_path)
    # A stray tab in a long text is white space.
    for side in ("en", "de"):
        write(tmp_path / f"long.{side}", "a\n" * 2000 + "b\tb\n")
    long = str(tmp_path / "long.en"), str(tmp_path / "long.de")
    TextFilesCorpus(long, dev).prepare(tmp_path)
    assert [*TextFilesCorpus(long, dev).read("train", tmp_path)][-1] == ("b\tb", "b\tb")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("the dog runs over {} fields", "der Hund rennt über {} Felder"),
        ("那只狗跑过{}片田", "The dog"),
    ],
)
@pytest.mark.parametrize("exchanged", [False, True])
def test_sides_that_one_split_has_in_another_order_are_named(
    tmp_path, caplog, source, target, exchanged
):
    def rows(first: int, last: int, *sides: str) -> str:
        lines = ("\t".join(side.format(i) for side in sides) for i in range(first, last))
        return write(tmp_path / f"{first}.tsv", "\n".join(lines))

    sides = (target, source) if exchanged else (source, target)
    TextFilesCorpus(rows(0, 50, source, target), rows(50, 59, *sides)).prepare(tmp_path)
    assert ["50.tsv" in line for line in caplog.messages] == [True] * exchanged


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2"])
def test_damaged_files_are_named(tmp_path, dev, suffix):
    path = Path(write(tmp_path / f"x.{suffix}", b"a\tb\n" * 1000))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=rf"x\.{suffix} is not a whole compressed file"):
        TextFilesCorpus(str(path), dev).prepare(tmp_path)


@pytest.mark.parametrize("value", [5, [], ("a.en", "a.de", "a.fr"), [("a.en", 3)]])
def test_values_of_another_form_are_refused_at_once(value):
    with pytest.raises(UserError, match=r"TextFilesCorpus\.train"):
        TextFilesCorpus(value, "dev.tsv")
    with pytest.raises(UserError, match=r"more_tests has 'train'"):
        TextFilesCorpus("a.tsv", "dev.tsv", more_tests={"train": "b.tsv"})


def test_description_follows_the_content_and_not_the_place(tmp_path, dev):
    def describe(folder: str, content: str) -> dict:
        (tmp_path / folder).mkdir(exist_ok=True)
        return TextFilesCorpus(write(tmp_path / folder / "t.tsv", content), dev).describe()

    first = describe("here", "a\tb\n")
    assert json.loads(json.dumps(first)) == first
    assert describe("there", "a\tb\n") == first
    # The same file, changed in place and of the same size.
    assert describe("here", "a\tc\n") != first
