"""The corpus of Debian's texts: catalogues, accelerators, splits, files; without apt."""

import hashlib
import importlib
import itertools
import re
import struct
import sys

import pytest

script = importlib.import_module("scripts.debian_corpus")


def catalogue(messages, order="<", charset="UTF-8"):
    """Returns a .mo file."""
    header = f"Content-Type: text/plain; charset={charset}\n"
    pairs = sorted((messages | {"": header}).items())
    texts = [text.encode(charset) for column in zip(*pairs, strict=True) for text in column]
    starts = itertools.accumulate((len(text) + 1 for text in texts), initial=28 + 8 * len(texts))
    table = itertools.chain.from_iterable(zip(map(len, texts), starts, strict=False))
    numbers = (0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0, *table)
    content = b"".join(text + b"\0" for text in texts)
    return struct.pack(f"{order}{len(numbers)}I", *numbers) + content


@pytest.mark.parametrize(("order", "charset"), [("<", "UTF-8"), (">", "ISO-8859-1")])
def test_a_catalogue_is_read_with_contexts_and_plurals(order, charset):
    messages = {
        "Open": "Öffnen",
        "menu\4Close": "Schließen",
        "mail\4one file\0%d files": "eine Datei\0%d Datei\0%d Dateien",
        "%d page\0%d pages": "%d ページ" if charset == "UTF-8" else "%d Seiten",
    }
    pairs = set(script.read_catalogue(catalogue(messages, order, charset)))
    page = messages["%d page\0%d pages"]
    assert pairs == {
        ("Open", "Öffnen"),
        ("Close", "Schließen"),
        ("one file", "eine Datei"),
        ("%d files", "%d Dateien"),
        ("%d page", page),
        ("%d pages", page),
    }


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("_File to open", "_Datei", "File to open"),
        ("E&xit now", "&Beenden", "Exit now"),
        ("Edit _URLs", "_URLs bearbeiten", "Edit URLs"),
        ("Search && replace", "Suchen", "Search & replace"),
        ("one_two_three", "eins", "one_two_three"),
    ],
)
def test_accelerators_are_not_text(text, other, expected):
    assert script.without_accelerator(text, other) == expected


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("Open <b>this</b> one", "Öffne <b>dies</b>", [("Open this one", "Öffne dies")]),
        ("Write a <file> here", "Ein <file>", [("Write a <file> here", "Ein <file>")]),
        ("A b c\n\nD e f", "Eins\n\nZwei", [("A b c", "Eins"), ("D e f", "Zwei")]),
        ("A first part\n\nA second part", "Ein Teil", []),
        ("Read %s and %d", "Lies %d", []),
        ("Left as it is", "Left as it is", []),
        ("Too short", "Zu kurz", []),
        ("-a    lists all\n-b    lists few", "-a    alle\n-b    wenige", []),
    ],
)
def test_messages_become_pairs_where_both_sides_agree(source, target, pairs):
    assert [*script.clean(source, target, shortest=3)] == pairs


class FakeApt:
    """A few texts as apt's lists and packages have them."""

    def __init__(self, *_):
        self.used = ["b_1.0_all.deb", "a_1.0_all.deb"]

    def paragraphs(self, created_by, language="Language: "):
        name = f"Description-{language.removeprefix('Language: ')}"
        for package, source in (("git-man", "git (1.0)"), ("tar", "")):
            one = {"Package": package} | ({"Source": source} if source else {})
            yield one | {"Description-md5": package, name: f"{name}\n A text\n in two lines."}

    def files(self, names, pattern):
        languages = ("pt_BR", "pt_PT", "pt", "de", "de_DE")
        paths = {f"locale/{one}/LC_MESSAGES/git.mo": one for one in languages}
        paths |= {"libreoffice/help/en/text/swriter/01.html": "en"}
        for name, (path, content) in itertools.product(names[-2:], paths.items()):
            page = f'<p id="par_1" class="x">A <b>{name}</b></p>'.encode()
            if match := re.search(pattern, path):
                yield name, match, catalogue({"A": content}) if path.endswith("mo") else page


def test_a_message_has_its_source_package_catalogue_or_folder():
    described = [*script.descriptions(FakeApt(), "de")]
    assert [domain for domain, *_ in described] == ["git", "git", "tar", "tar"]
    assert described[1][1:] == ("A text in two lines.",) * 2
    assert {one for *_, one in script.programs(FakeApt(), "pt_BR")} == {"pt_BR"}
    assert {one for *_, one in script.programs(FakeApt(), "de")} == {"de", "de_DE"}
    texts = (f"A libreoffice-help-{language}" for language in ("en-us", "de"))
    assert [*script.help_pages(FakeApt(), "de")] == [("swriter", *texts)]


def make(monkeypatch, folder, *flags, language="de", program="apt-get"):
    letters = itertools.product("ABCDEFGHIJ", repeat=3)
    texts = [(f"_{a}{b} is <i>{c}</i>", f"{c} und &{a}{b}") for a, b, c in letters]
    kinds = {
        "programs": lambda *_: ((f"p{i // 7 % 60}", *texts[i]) for i in range(800)),
        "help": lambda _, to: ((f"h{i % 90}", *texts[i]) for i in range(500, 1000) if to == "de"),
    }
    monkeypatch.setattr(script, "KINDS", kinds)
    monkeypatch.setattr(script, "Apt", FakeApt)
    monkeypatch.setattr(script.shutil, "which", lambda _: program)
    monkeypatch.setattr(sys, "argv", ["script", language, str(folder), "--cache=none", *flags])
    script.main()


def test_whole_domains_are_split_no_text_is_in_two_and_files_are_the_same_again(
    tmp_path, monkeypatch
):
    folders = tmp_path / "one", tmp_path / "in/two"
    contents = []
    for folder in folders:
        make(monkeypatch, folder, "--size=51")
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]
    sums = contents[0].pop("SHA256SUMS").decode().splitlines()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents[0].items()}
    assert digests == {name: digest for digest, name in map(str.split, sums)}
    assert contents[0].pop("sources.txt") == b"a_1.0_all.deb\nb_1.0_all.deb\n"
    rows = {name: content.decode().splitlines() for name, content in contents[0].items()}
    assert rows["test.tsv"] == rows["programs.test.tsv"] + rows["help.test.tsv"]
    splits = [rows[f"{name}.tsv"] for name in script.SPLITS]
    assert [len(some) for some in splits[:2]] == [51, 51]
    assert sum(map(len, splits)) == len({row.split("\t")[0] for some in splits for row in some})


def test_a_domain_is_in_one_split_and_a_large_one_for_training():
    domains = {f"large{i}": [(f"l{i} {j}", "x") for j in range(300)] for i in range(9)}
    domains |= {f"d{i}": [(f"{i} {j}", "x") for j in range(i)] for i in range(1, 90)}
    splits = script.split_by_domain(domains, quota=300)
    assert {f"l{i}" for i in range(9)} < {pair[0].split()[0] for pair in splits["train"]}
    numbers = [{pair[0].split()[0] for pair in pairs} for pairs in splits.values()]
    assert sum(map(len, numbers)) == len(set.union(*numbers))
    assert [len(splits[name]) for name in ("test", "dev")] == [300, 300]


@pytest.mark.parametrize(
    "wrong", [{"language": "German"}, {"language": "fr"}, {"program": None}, {"folder": "there"}]
)
def test_a_mistake_is_one_line_and_writes_nothing(tmp_path, monkeypatch, wrong):
    (tmp_path / "there").mkdir()
    folder = tmp_path / wrong.pop("folder", "new")
    with pytest.raises(SystemExit, match=r"^error: [^\n]+$"):
        make(monkeypatch, folder, **wrong)
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
