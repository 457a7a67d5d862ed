"""A synthetic English-German corpus that needs no download and that a small model can learn.

An example of a corpus of one's own: a class that `prepare.corpus` names, in a module beside the gin
file that imports it (see docs/extending.md).
"""

import functools
import hashlib
import random
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from t2t_repro.config.values import Count, configurable
from t2t_repro.data.corpora.corpus import Pair
from t2t_repro.errors import UserError

try:
    import babel

    from generated_pieces import pieces_of
except ModuleNotFoundError as error:
    install = "pip install '.[quickstart]', or pip install -e '.[quickstart]' in a checkout."
    raise UserError(f"the generated corpus needs {error.name}: {install}") from error

# English and German lines in turn. A word in braces is a slot: a kind of piece (see `KINDS`), with
# a digit for the second slot of a kind. Two pieces of one kind always differ. German inflects and
# the pieces do not, so a slot is only where the form of its pieces is right: a duration in the
# accusative, or "in_time" and "ago", which Babel writes in the dative.
_LINES = Path(__file__).with_name("generated_frames.txt").read_text("utf-8").splitlines()
FRAMES: tuple[Pair, ...] = tuple(zip(_LINES[::2], _LINES[1::2], strict=True))


@configurable()
class GeneratedCorpus:
    """Synthetic English-German sentences, to try the pipeline.

    Hand-written sentence frames are filled with dates, times, durations, prices, quantities,
    countries and languages, as Babel formats them for both languages (from Unicode's CLDR). A model
    learns word order, copying, formats of numbers, and the 24-hour clock.

    The data are a function of the arguments and of Babel's version. No source and no target occurs
    twice in all splits together. dev and test do not depend on `train_size`.

    Args:
        seed: any integer; another seed draws other sentences from the same frames.
        train_size: number of pairs in train.
        dev_size: number of pairs in dev.
        test_size: number of pairs in test.

    Raises:
        UserError: the sizes are more than the frames give.
    """

    splits: tuple[str, ...] = ("train", "dev", "test")

    def __init__(
        self,
        seed: int = 1,
        train_size: Count = 120_000,
        dev_size: Count = 1_000,
        test_size: Count = 1_000,
    ) -> None:
        self._seed = seed
        # Held-out splits come first, so that they do not depend on the size of train.
        self._sizes = {"dev": dev_size, "test": test_size, "train": train_size}
        # Frames are drawn evenly, so the one with the fewest sentences is exhausted first. With
        # half of these used, every second draw from it is a repetition.
        limit = len(FRAMES) * min(map(_capacity, FRAMES)) // 2
        total = sum(self._sizes.values())
        if total > limit:
            problem = f"GeneratedCorpus has {total:,} sentences in all, expected at most {limit:,}"
            raise UserError(f"{problem}: lower train_size")

    def describe(self) -> dict[str, Any]:
        """Returns the arguments, Babel's version, and a hash of a sample, to notice other data."""
        sample = _draw_new(random.Random(0), 200, set(), set())
        text = "\n".join("\t".join(pair) for pair in sample)
        sizes = {f"{split}_size": self._sizes[split] for split in self.splits}
        return {
            "corpus": "GeneratedCorpus",
            "seed": self._seed,
            **sizes,
            "babel": babel.__version__,
            "sample_sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        }

    def prepare(self, download_dir: Path) -> None:
        """Does nothing: the sentences are generated as they are read."""

    def read(self, split: str, download_dir: Path) -> Iterator[Pair]:
        """Yields the pairs of a split; `download_dir` is not used.

        The splits before it are drawn too, since none of its sentences may occur in them.
        """
        sources: set[str] = set()
        targets: set[str] = set()
        for name, size in self._sizes.items():
            pairs = _draw_new(random.Random(f"{self._seed} {name}"), size, sources, targets)
            if name == split:
                yield from pairs
                return
            # An earlier split is drawn only to fill `sources` and `targets`.
            for _ in pairs:
                pass


def _draw_new(
    rng: random.Random, number: int, sources: set[str], targets: set[str]
) -> Iterator[Pair]:
    """Yields `number` random pairs whose sides are new: not in `sources` or `targets`.

    The sides of each are added to these two sets.
    """
    wanted = len(sources) + number
    while len(sources) < wanted:
        source, target = _draw(rng)
        if source not in sources and target not in targets:
            sources.add(source)
            targets.add(target)
            yield source, target


def _draw(rng: random.Random) -> Pair:
    """Returns a random frame, English and German, with random pieces in its slots."""
    frame = rng.choice(FRAMES)
    english: dict[str, str] = {}
    german: dict[str, str] = {}
    for slot in _slots(frame):
        kind = slot.rstrip("2")
        english[slot], german[slot] = rng.choice(pieces_of(kind))
        # The second slot of a kind must differ from the first.
        while slot != kind and english[slot] == english[kind]:
            english[slot], german[slot] = rng.choice(pieces_of(kind))
    return frame[0].format_map(english), frame[1].format_map(german)


@functools.cache
def _slots(frame: Pair) -> tuple[str, ...]:
    """Returns the slots of a frame in the order of its English side ("x" before "x2")."""
    return tuple(re.findall(r"{(\w+)}", frame[0]))


def _capacity(frame: Pair) -> int:
    """Returns the number of sentences that a frame gives.

    Those with equal pieces in two slots of a kind, which are never drawn, are counted too.
    """
    return prod(len(pieces_of(slot.rstrip("2"))) for slot in _slots(frame))
