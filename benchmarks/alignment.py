"""How good word alignments are, on the generated corpus, where those of many words are known.

    python benchmarks/alignment.py --model_dir=runs/quickstart/model

Known are names, countries, languages, days, months and numbers that are one word in both languages,
each once in its sentence. They are found by their spelling in the test sentences and their
references, which the model aligns. Of its links those count that touch a word with a known link:
a preposition that is linked with a country is an error.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from one_line import mistakes_in_one_line
from t2t_repro.data.corpora.generated import GeneratedCorpus
from t2t_repro.data.corpora.generated_pieces import pieces_of
from t2t_repro.decoding.alignment import Aligner, Sentences
from t2t_repro.decoding.translator import Translator

_KINDS = ("name", "territory", "language", "weekday", "month", "year", "count", "thousands")
_PUNCTUATION = '.,:!?"“„'

Links = set[tuple[int, int]]
"""(word of the source, word of the target)"""


class Counts(NamedTuple):
    """Numbers of links, of one pair or of many.

    Attributes:
        right: found and known.
        found: found, of a word with a known link.
        known: that are known.
    """

    right: int = 0
    found: int = 0
    known: int = 0

    @property
    def precision(self) -> float:
        """The share of links found that are right."""
        return self.right / max(self.found, 1)

    @property
    def recall(self) -> float:
        """The share of known links that are found."""
        return self.right / max(self.known, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        return 2 * self.right / max(self.found + self.known, 1)


def known_words() -> dict[str, str]:
    """The German of English words that have one translation."""
    pairs = {pair for kind in _KINDS for pair in pieces_of(kind) if " " not in "".join(pair)}
    english = [source for source, _ in pairs]
    return {source: target for source, target in pairs if english.count(source) == 1}


def known_links(source: str, target: str, german: dict[str, str]) -> Links:
    """The links between words that occur once in a sentence and its translation."""
    ours, theirs = (
        [word.strip(_PUNCTUATION) for word in text.split()] for text in (source, target)
    )
    words = [(word, german[word]) for word in ours if word in german]
    return {
        (ours.index(word), theirs.index(other))
        for word, other in words
        if ours.count(word) == theirs.count(other) == 1
    }


def counts_of(found: Links, known: Links) -> Counts:
    """Compares the links of a pair with those that are known."""
    sources, targets = ({link[side] for link in known} for side in (0, 1))
    touching = {link for link in found if link[0] in sources or link[1] in targets}
    return Counts(len(found & known), len(touching), len(known))


def links_of(text: str) -> Links:
    """Reads links as Pharaoh has them."""
    pairs = (link.split("-") for link in text.split())
    return {(int(source), int(target)) for source, target in pairs}


def total(counts: Iterable[Counts]) -> Counts:
    """Adds the counts of pairs up."""
    return Counts(*map(sum, zip(*counts, strict=True)))


def main() -> None:
    """Aligns the test split with every layer of a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    pairs = list(GeneratedCorpus().read("test", Path()))[: options.sentences]
    german = known_words()
    known = [known_links(*pair, german) for pair in pairs]
    translator = Translator.load(options.model_dir)
    sources, targets = (
        Sentences(side, subwords.encode(side))
        for subwords, side in zip(translator.subwords, zip(*pairs, strict=True), strict=True)
    )
    print(f"{len(pairs)} pairs, {sum(map(len, known))} known links")
    print("| layer | precision | recall | F1 |")
    print("|---|---|---|---|")
    for layer in range(1, translator.model.num_layers + 1):
        aligner = Aligner(translator.model, translator.subwords, layer)
        texts = aligner.align(sources, targets, 4096, translator.workers)
        found = total(map(counts_of, map(links_of, texts), known))
        print(f"| {layer} | {found.precision:.3f} | {found.recall:.3f} | {found.f1:.3f} |")


if __name__ == "__main__":
    mistakes_in_one_line(main)
