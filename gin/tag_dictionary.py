"""The tags that the words of a treebank have, for `TreeGrammar`.

In gin::

    import tag_dictionary
    train.sized_by = @tag_dictionary

It is read from the training trees at the start of training, and kept in the model's config.gin, so
that a trained model has its own.
"""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import gin

from t2t_repro.config.gin_files import value_of
from t2t_repro.parsing.trees import delinearise


@gin.configurable(denylist=["pairs"])
def tag_dictionary(pairs: int, least: int = 5, share: float = 0.002) -> dict[str, Any]:
    """Binds the tags of the words in `prepare.corpus` to TreeGrammar's parameters.

    Args:
        pairs: not used.
        least: a word that is rarer may have the tags of all rare words.
        share: tags that a word has less often than in this share are left out, as errors of
            annotation; likewise of rare words.

    Returns:
        bindings of `TreeGrammar.tags` and `TreeGrammar.other_tags`.
    """
    tags_of: dict[str, Counter[str]] = defaultdict(Counter)
    for words, symbols in value_of("prepare", "corpus").read("train", Path()):
        for word, tag in zip(words.split(" "), delinearise(symbols).tags, strict=True):
            tags_of[word][tag] += 1
    rare: Counter[str] = Counter()
    classes: dict[str, list[str]] = defaultdict(list)
    for word, counts in sorted(tags_of.items()):
        if counts.total() < least:
            rare += counts
        else:
            classes[_frequent(counts, share)].append(word)
    return {
        "TreeGrammar.tags": {tags: " ".join(words) for tags, words in sorted(classes.items())},
        "TreeGrammar.other_tags": _frequent(rare, share),
    }


def _frequent(counts: Counter[str], share: float) -> str:
    least = share * counts.total()
    return " ".join(sorted(tag for tag, count in counts.items() if count > least))
