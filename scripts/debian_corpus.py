"""Makes a corpus of software text, English and its translations, from Debian's packages.

    python scripts/debian_corpus.py pt_BR corpora/pt_BR --cache=corpora/debian

People translated all of it. There are three kinds:

    descriptions  titles and paragraphs of package descriptions, from apt's lists
    programs      messages of programs: the gettext catalogues of `PACKAGES`
    help          paragraphs of LibreOffice's help

The folder has train.tsv, dev.tsv, test.tsv (English, a tab, the translation), KIND.test.tsv,
sources.txt (packages and their versions) and SHA256SUMS. A source package, a catalogue and a folder
of the help is in one split only, and no English text of dev or test is in another split.

Needs Debian 12 or later and the standard library. It installs nothing, and leaves apt's own lists
alone: the cache has others, and 200 MB of packages. With the same cache it writes the same bytes; a
new language updates the cache's lists.

The licences of the texts are the packages' own (GPL, LGPL, MPL and others). Read them before you
pass on a text, or a model that was trained on it.
"""

import argparse
import hashlib
import html
import io
import re
import shutil
import struct
import subprocess
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGES = """
apt aptitude-common audacity-data bash binutils-common bison bluefish-data calligrasheets-data
cinnamon-l10n claws-mail-i18n coreutils dpkg e2fsprogs evolution-common filezilla-common findutils
fontforge-common gajim gcc-12-locales gcc-14-locales geany-common gettext git
gnome-control-center-data gnucash-common gnumeric-common gnupg-l10n gramps grub-common inkscape
kdevelop-l10n krita-l10n kvirc-data libglib2.0-data libgtk-3-common libgtk-4-common libvirt-l10n
lokalize mercurial-common mutt nautilus-data phpmyadmin pidgin-data pitivi postgresql-client-15
postgresql-client-17 python3-django rkward-data rpm-i18n synaptic tar texinfo tortoisehg
util-linux-locales vlc-l10n weechat-core wget wordpress-l10n
"""
"""With many messages in many languages; those that a release lacks are left out."""
LONGEST = 60
"""Words of a sentence."""
PER_DOMAIN, LARGE_SHARE = 40, 0.03
"""Pairs of a domain in dev or test, and the share of all pairs above which it is for training."""
PLACEHOLDER = re.compile(
    r"%(?:\d+\$|\(\w+\))?[-+#0]*[\d*]*(?:\.[\d*]+)?(?:hh?|ll?|[zjtLq])?[diouxXeEfgGcspn]\b"
    r"|%L?\d+|%[A-Z]{3,}|\$\{?\w+\}?|\$\(\w+\)|\{\w*\}"
)

SPLITS = ("test", "dev", "train")
"""In the order in which they are filled."""

Pair = tuple[str, str]
Splits = dict[str, list[Pair]]
Messages = Iterator[tuple[str, str, str]]
"""Domain, English and translation: a domain is in one split."""


class Apt:
    """apt, with lists and packages in a folder of its own.

    Attributes:
        used: the packages that were read, with their versions.
    """

    def __init__(self, folder: Path, language: str) -> None:
        self.folder, self.used = folder.absolute(), set[str]()
        for name in ("lists/partial", "archives/partial", "debs/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.options = [f"-oDir::State::lists={self.folder}/lists", f"-oDir::Cache={self.folder}"]
        self.options += [f"-oAcquire::Languages=en,{language}", "-oAPT::Get::List-Cleanup=0"]
        self.options += ["-oAPT::Sandbox::User=", "-oAPT::Update::Error-Mode=any", "-qq"]

    def run(self, *command: str, folder: str = "") -> bytes:
        """Returns the output of a command, which reports its errors itself."""
        options = self.options if command[0] in ("apt-get", "apt-cache") else []
        arguments = [command[0], *options, *command[1:]]
        done = subprocess.run(arguments, cwd=self.folder / folder, stdout=subprocess.PIPE)
        if done.returncode:
            raise SystemExit(f"error: {command[0]} failed with status {done.returncode}, see above")
        return done.stdout

    def lists(self, *conditions: str) -> list[str]:
        """Returns the files of apt's lists of a kind, downloaded unless the cache has some."""
        command = ("apt-get", "indextargets", "--format=$(FILENAME)", *conditions)
        if not self.run(*command):
            self.run("apt-get", "update")
        return sorted({*self.run(*command).decode().split()})

    def paragraphs(self, *conditions: str) -> Iterator[dict[str, str]]:
        """Yields the paragraphs of the lists of a kind: values by the names of fields."""
        for name in self.lists(*conditions):
            text = self.run("/usr/lib/apt/apt-helper", "cat-file", name).decode()
            for paragraph in filter(None, text.strip("\n").split("\n\n")):
                fields = (field.partition(":") for field in re.split(r"\n(?! )", paragraph))
                yield {name: value.strip() for name, _, value in fields}

    def packages(self, names: Sequence[str]) -> Iterator[tuple[str, Path]]:
        """Yields names and files of packages, downloaded unless the cache has them."""
        debs = self.folder / "debs"
        known = self.run("apt-cache", "pkgnames") if self.lists("Created-By: Packages") else b""
        present = {path.name.split("_")[0] for path in debs.glob("*.deb")}
        if missing := {*names} & {*known.decode().split()} - present:
            self.run("apt-get", "download", *sorted(missing), folder="debs/partial")
            for path in (debs / "partial").glob("*.deb"):
                path.replace(debs / path.name)
        yield from ((path.name.split("_")[0], path) for path in sorted(debs.glob("*.deb")))

    def files(self, names: Sequence[str], pattern: str) -> Iterator[tuple[str, re.Match, bytes]]:
        """Yields package, match and content of the files whose paths match, of some packages."""
        for name, path in self.packages(names):
            if name in names:
                self.used.add(path.name)
                content = io.BytesIO(self.run("dpkg-deb", "--fsys-tarfile", str(path)))
                with tarfile.open(fileobj=content) as tar:
                    for member in filter(tarfile.TarInfo.isfile, tar):
                        file, match = tar.extractfile(member), re.search(pattern, member.name)
                        if file and match:
                            yield name, match, file.read()


def descriptions(apt: Apt, language: str) -> Messages:
    """Yields source package, English and translation of titles and paragraphs."""
    # First, as it may update all lists.
    translations = [*apt.paragraphs("Created-By: Translations", f"Language: {language}")]
    packages = {one["Package"]: one for one in apt.paragraphs("Created-By: Packages")}
    originals = apt.paragraphs("Created-By: Translations", "Language: en")
    english = {one["Description-md5"]: one["Description-en"] for one in originals}
    for one in translations:
        texts = (english.get(one["Description-md5"], ""), one[f"Description-{language}"])
        parts, translated = map(description_parts, texts)
        agreed = len(parts) if len(parts) == len(translated) else 1
        source_package = packages.get(one["Package"], {}).get("Source", one["Package"]).split()[0]
        for pair in zip(parts[:agreed], translated, strict=False):
            yield source_package, *pair


def description_parts(text: str) -> list[str]:
    """Returns the title, the paragraphs and the items of lists of a description."""
    title, _, body = text.partition("\n")
    body = re.sub(r"\n +([*+o•-]) +", r"\n .\n ", "\n" + body)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n \.(?=\n|$)", body))
    return [title, *filter(None, paragraphs)]


def programs(apt: Apt, language: str) -> Messages:
    """Yields catalogue, English and translation of the messages of programs."""
    libreoffice = f"libreoffice-l10n-{language.lower().replace('_', '-')}"
    # Some call German de_DE. The Portuguese of pt_PT is not that of pt_BR.
    names = f"{language}|{language.replace('_', '-')}|{language}_{language.upper()}"
    pattern = rf"^(.*)[/_-](?:{names})((?:/LC_MESSAGES/.*)?\.mo)$"
    for package, match, content in apt.files([*PACKAGES.split(), libreoffice], pattern):
        for pair in read_catalogue(content):
            yield package.replace(libreoffice, "libreoffice") + match[1] + match[2], *pair


def read_catalogue(content: bytes) -> Iterator[Pair]:
    """Yields the pairs of a .mo file; of plural forms, the first and the last.

    The standard library's gettext does not give the English plural. A context is left out.
    """
    order, charset = "<" if content[:4] == b"\xde\x12\x04\x95" else ">", "utf-8"
    count, *tables = struct.unpack_from(f"{order}3I", content, 8)
    for number in range(count):
        places = (struct.unpack_from(f"{order}2I", content, table + 8 * number) for table in tables)
        texts = (content[start : start + size] for size, start in places)
        source, target = (text.decode(charset, "replace") for text in texts)
        if not source:
            charset = "".join(re.findall(r"charset=([\w-]+)", target)) or charset
            continue
        sources, forms = source.split("\x04")[-1].split("\0"), target.split("\0")
        yield from zip(sources, (forms[0], forms[-1]), strict=False)


def help_pages(apt: Apt, language: str) -> Messages:
    """Yields folder, English and translation of the paragraphs of LibreOffice's help."""
    pages: dict[str, dict[Pair, str]] = defaultdict(dict)
    packages = [f"libreoffice-help-{one.lower().replace('_', '-')}" for one in ("en-us", language)]
    for package, match, content in apt.files(packages, r"/help/[\w-]+/text/(.*)\.html$"):
        paragraphs = r'<(p|h\d)\b[^>]*? id="((?:par|hd)_[^"]+)"[^>]*>(.*?)</\1>'
        for _, key, text in re.findall(paragraphs, content.decode(), re.DOTALL):
            # A name has variants for the programs of the suite: one stays.
            variant = r'<span hidden[^>]* class="(?!WRITER|IMPRESS)[A-Z]+">.*?</span>'
            pages[package][match[1], key] = re.sub(rf"{variant}|<[^<>]+>", "", text)
    english, translated = (pages[package] for package in packages)
    for key in sorted(english.keys() & translated.keys()):
        yield key[0].rpartition("/")[0], english[key], translated[key]


KINDS = {"descriptions": descriptions, "programs": programs, "help": help_pages}


def clean(source: str, target: str, shortest: int) -> Iterator[Pair]:
    """Yields the pairs of a message: its paragraphs without markup, if both sides agree."""
    for a, b in aligned(source.strip(), target.strip(), r"\n\s*\n"):
        if re.search(r"\S(?: {3,}|\t)\S|\n {2,}\S", a):  # A table, or a list of options.
            continue
        a, b = without_accelerator(a, b), without_accelerator(b, a)
        closing, lone = r"</([a-zA-Z]\w*)>", r"<([a-zA-Z]\w*)\b[^<>]*/>"
        tags = {*re.findall(closing, a + b), *re.findall(lone, a + b)}
        a, b = tidy(a, tags), tidy(b, tags)
        is_long = max(len(a.split()), len(b.split())) > LONGEST
        sentences = aligned(a, b, r"(?<=[.!?])\s+(?=[^\W\d_a-z])") if is_long else [(a, b)]
        yield from (pair for pair in sentences if is_usable(*pair, shortest))


def aligned(source: str, target: str, separator: str) -> list[Pair]:
    """Returns the parts of two texts in pairs, if there are as many."""
    sources, targets = re.split(separator, source), re.split(separator, target)
    return list(zip(sources, targets, strict=True)) if len(sources) == len(targets) else []


def without_accelerator(text: str, other: str) -> str:
    """Removes the mark of a shortcut, as in _File, E&xit and ~View.

    Args:
        text: of a message.
        other: its other side. A word that both sides have, such as file_name, stays.
    """
    match = re.search(r"\S*?(?<![&\\])([_~]|&(?!\w{2,6};))(?=[^\W\d_])\S*", text)
    if match and text.count(match[1]) == 1:
        word, mark = match[0], match[1]
        if word.startswith(mark) or word not in other.split():
            return text.replace(mark, "")
    return text.replace("&&", "&")


def tidy(text: str, tags: set[str]) -> str:
    """Removes tags, which come in pairs, entities and line ends; a lone <file> stays."""
    for tag in tags:
        text = re.sub(rf"</?{tag}\b[^<>]*>", "", text)
    text = re.sub(r"<(?:br|p|hr|img)\b[^<>]*>", " ", text)
    text = html.unescape(text) if re.search(r"&(?:\w{2,6}|#\d+);", text) else text
    return " ".join(text.split())


def is_usable(source: str, target: str, shortest: int) -> bool:
    """Returns whether two texts are translations, by length, letters and placeholders."""
    words, translated = len(source.split()), len(target.split())
    if not (shortest <= words <= LONGEST and 0 < translated <= LONGEST):
        return False
    letters = min(sum(map(str.isalpha, text)) / max(len(text), 1) for text in (source, target))
    return (
        letters > 0.5
        and 1 / 3 <= translated / words <= 3
        and source.casefold() != target.casefold()
        and not re.search("[\x00-\x1f\x7f\ufffd]", source + target)
        and Counter(PLACEHOLDER.findall(source)) == Counter(PLACEHOLDER.findall(target))
    )


def split_by_domain(domains: dict[str, list[Pair]], quota: int) -> Splits:
    """Puts each domain, in the order of their digests, into test, dev or train.

    Of a domain in test or dev, at most `PER_DOMAIN` pairs are kept.
    """
    splits: Splits = {name: [] for name in SPLITS}
    large = LARGE_SHARE * sum(map(len, domains.values()))
    for domain in sorted(domains, key=digest):
        pairs = domains[domain]
        name = next((one for one in SPLITS[:2] if len(splits[one]) < quota), "train")
        if name == "train" or len(pairs) > large:
            splits["train"] += pairs
        else:
            most = min(PER_DOMAIN, quota - len(splits[name]))
            splits[name] += sorted(pairs, key=lambda pair: digest(pair[0]))[:most]
    return splits


def digest(text: str) -> str:
    """Returns a text by which texts are in an order that nobody chose."""
    return hashlib.sha1(text.encode()).hexdigest()


def make_kind(messages: Messages, seen: set[str], quota: int, shortest: int) -> Splits:
    """Returns the splits of a kind of text.

    Args:
        messages: of the kind.
        seen: the letters of the English texts so far, each of which is taken once.
        quota: pairs of dev and of test.
        shortest: words of the shortest English text.
    """
    domains: dict[str, list[Pair]] = defaultdict(list)
    for domain, source, target in messages:
        for pair in clean(source, target, shortest):
            letters = re.sub(r"[\W\d_]+", " ", pair[0].casefold()).strip()
            if letters not in seen:
                seen.add(letters)
                domains[domain].append(pair)
    return split_by_domain(domains, quota)


def write(folder: Path, corpus: dict[str, Splits], used: set[str]) -> None:
    """Writes the files of a corpus of several kinds, whole or not at all."""
    parts = {name: [pair for kind in corpus.values() for pair in kind[name]] for name in SPLITS}
    parts |= {f"{kind}.test": splits["test"] for kind, splits in corpus.items()}
    lines = {f"{name}.tsv": ["\t".join(pair) for pair in pairs] for name, pairs in parts.items()}
    lines["sources.txt"] = sorted(used)
    contents = {name: "".join(f"{one}\n" for one in some).encode() for name, some in lines.items()}
    sums = [f"{hashlib.sha256(some).hexdigest()}  {name}\n" for name, some in contents.items()]
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, content in (contents | {"SHA256SUMS": "".join(sums).encode()}).items():
        (partial / name).write_bytes(content)
    partial.rename(folder)


def main() -> None:
    """Makes a corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("language", help="as gettext writes it: de, pt_BR")
    parser.add_argument("folder", type=Path, help="to be made")
    parser.add_argument("--cache", type=Path, required=True, help="of what apt downloads")
    parser.add_argument("--size", type=int, default=1000, help="pairs of dev and of test")
    parser.add_argument("--shortest", type=int, default=3, help="words of an English text")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    args = parser.parse_args()
    if args.folder.exists():
        raise SystemExit(f"error: {args.folder} is there already: name a new folder")
    if not shutil.which("apt-get"):
        raise SystemExit("error: found no apt-get, expected Debian 12 or later")
    if not re.fullmatch(r"[a-z]{2,3}(_[A-Z]{2})?(@\w+)?", args.language):
        raise SystemExit(f"error: language {args.language!r}, expected one such as de or pt_BR")
    apt, seen, corpus = Apt(args.cache, args.language), set[str](), {}
    kinds = [kind for kind in KINDS if kind in args.kinds]
    for number, kind in enumerate(kinds):
        quota = args.size // len(kinds) + (number < args.size % len(kinds))
        messages = KINDS[kind](apt, args.language)
        corpus[kind] = make_kind(messages, seen, quota, args.shortest)
        if not any(corpus[kind].values()):
            raise SystemExit(f"error: found no {kind} in {args.language!r}: see --kinds")
        counts = ", ".join(f"{name} {len(corpus[kind][name]):,}" for name in SPLITS)
        print(f"{kind}: {counts}", flush=True)
    write(args.folder, corpus, apt.used)


if __name__ == "__main__":
    main()
