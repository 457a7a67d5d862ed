"""Translates sentences of LibreOffice's help as HTML, and counts those whose tags come through.

    python scripts/help_markup.py runs/published/enpt --cache=corpora/debian

The cache is that of scripts/debian_corpus.py. The sentences have tags around some of their words.
"""

import argparse
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

from debian_corpus import Apt

from t2t_repro.decoding.loading import load_translator
from t2t_repro.serving.libretranslate import Direction, Query

PARAGRAPH = r'<(p|h\d)\b[^>]*? id="(?:par|hd)_[^"]+"[^>]*>(.*?)</\1>'


class Tags(HTMLParser):
    """The tags of HTML: how often each is there, and whether they are well-formed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.unclosed: list[str] = []
        self.counts: Counter[tuple] = Counter()
        self.is_well_formed = True
        self.feed(html)
        self.close()
        self.is_well_formed &= not self.unclosed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes a tag, and what it opens."""
        self.counts[tag, *attrs] += 1
        if tag not in ("br", "img"):
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Closes the last tag."""
        self.counts["/", tag] += 1
        self.is_well_formed &= bool(self.unclosed) and self.unclosed.pop() == tag


def sentences(cache: Path, count: int) -> list[str]:
    """Returns well-formed sentences of 5 to 40 words, in the order of their digests."""
    found = set()
    files = Apt(cache, "en").files(["libreoffice-help-en-us"], r"/help/[\w-]+/text/.*\.html$")
    for _, _, content in files:
        for _, paragraph in re.findall(PARAGRAPH, content.decode(), re.DOTALL):
            html = " ".join(paragraph.split())
            text = re.sub("<[^>]+>", "", html)
            inside = re.sub(r"^(<[^>]+>)+", "", html)
            is_one = 5 <= len(text.split()) <= 40 and not re.search(r"[.!?] \S", text)
            is_marked = re.search(r"\w[^<>]* <(?:a|span|em|sub)\b[^>]*>[^<]*\w", inside)
            if is_one and is_marked and Tags(html).is_well_formed:
                found.add(html)
    return sorted(found, key=lambda html: hashlib.sha1(html.encode()).hexdigest())[:count]


def main() -> None:
    """Prints the digest of the sentences, and how many stay well-formed with the same tags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model_dir", type=Path, help="a model from English")
    parser.add_argument("--cache", type=Path, required=True, help="of debian_corpus.py")
    parser.add_argument("--count", type=int, default=500, help="sentences")
    args = parser.parse_args()
    html = sentences(args.cache, args.count)
    direction = Direction("en", "xx", "", load_translator(args.model_dir))
    request = {"q": html, "source": "en", "target": "xx", "format": "html"}
    query = Query(request, [direction], len(html), sum(map(len, html)))
    texts = query.sources()
    found = dict(zip(texts, direction.translate(texts)["translations"], strict=True))
    pairs = [*zip(html, query.answer(found)["translatedText"], strict=True)]
    kept = [Tags(one).counts == Tags(other).counts for one, other in pairs]
    well_formed = sum(Tags(other).is_well_formed for _, other in pairs)
    digest = hashlib.sha256("\n".join(html).encode()).hexdigest()[:16]
    print(f"{len(html)} sentences, SHA-256 {digest}...: same tags {sum(kept)}, {well_formed=}")


if __name__ == "__main__":
    main()
