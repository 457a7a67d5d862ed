"""Reads the tags that the words of a treebank have, for `TreeGrammar`.

In gin::

    import tag_dictionary
    train.sized_by = @tag_dictionary

They are read from the training trees at the start of training, and saved in the model's config.gin,
so that a trained model has its own.
"""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from t2t_repro.config.gin_files import value_of
from t2t_repro.config.values import configurable
from t2t_repro.parsing.trees import delinearise


@configurable(denylist=["pairs"])
def tag_dictionary(pairs: int, least: int = 5, share: float = 0.002) -> dict[str, Any]:
    """Binds the tags of the words in a treebank, `prepare.corpus`, to TreeGrammar's parameters.

    Args:
        pairs: not used; `train.sized_by` gives it.
        least: words that occur less often are rare; each may have the tags of all rare words.
        share: a word's tags with at most this share of its occurrences are left out, as errors of
            annotation; likewise for all rare words together.

    Returns:
        bindings of `TreeGrammar.tags`, the words that have the same tags, such as {"DT": "a the",
        "NN VB": "run walk"}; and of `TreeGrammar.other_tags`, the tags of all other words.
    """
    tags_of: dict[str, Counter[str]] = defaultdict(Counter)
    # Path(): the folder of downloads, which treebanks do not use.
    for words, symbols in value_of("prepare", "corpus").read("train", Path()):
        for word, tag in zip(words.split(" "), delinearise(symbols).tags, strict=True):
            tags_of[word][tag] += 1
    tags_of_rare: Counter[str] = Counter()
    words_of: dict[str, list[str]] = defaultdict(list)
    for word, counts in sorted(tags_of.items()):
        if counts.total() < least:
            tags_of_rare += counts
        else:
            words_of[_frequent(counts, share)].append(word)
    return {
        "TreeGrammar.tags": {tags: " ".join(words) for tags, words in sorted(words_of.items())},
        "TreeGrammar.other_tags": _frequent(tags_of_rare, share),
    }


def _frequent(counts: Counter[str], share: float) -> str:
    """Returns the tags with more than a share of all counts, sorted, separated by spaces.

    {"NN": 60, "DT": 39, "IN": 1} and a share of 0.01 give "DT NN".
    """
    total = counts.total()
    return " ".join(sorted(tag for tag, count in counts.items() if count > share * total))
