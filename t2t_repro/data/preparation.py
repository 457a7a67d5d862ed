"""The settings of data preparation, and the identity of the data that they make.

`prepared` describes the files, and `stages` makes them.
"""

import dataclasses
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from t2t_repro.config.values import REQUIRED, Count, configurable
from t2t_repro.data.cleaning import Cleaning, Variants
from t2t_repro.data.corpora.corpus import Corpus
from t2t_repro.data.corpora.mixture import EpochMixture, Mixture, parts_of
from t2t_repro.data.prepared import DIRECTORY, DOWNLOADS, PreparedData
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import open_pair
from t2t_repro.text.training import ExistingSubwords, SubwordRecipe, SubwordRecipes, SubwordTraining

_FORMAT = 1


@configurable("prepare")
@dataclasses.dataclass(frozen=True)
class Preparation:
    """The settings of data preparation.

    Attributes:
        corpus: source of the sentence pairs.
        cleaning: rules that drop training pairs.
        subwords: recipe of the subword model that source and target share: training on these data,
            or an existing model (`ExistingSubwords`). If there is none, a run with
            `train.init_from` takes the subwords of that model, and any other run trains them with
            the settings of `SubwordTraining`.
        max_length: most ids of a sentence on either side, EOS included. Longer pairs of any split
            are not in its token store, and are reported as over-long subwords. They stay in the
            text, which is translated and scored.
        workers: processes that clean and encode a large corpus; by default one a core, at most
            eight. The result does not depend on it.
        source_subwords: recipe of a subword model of the source's own; `subwords` is then the
            target's. Each is trained on its side alone.
        variants: adds variants of training pairs; such as `TextVariants` in gin/text_variants.py.

    Raises:
        UserError: the corpus has no split train or dev, or one of its tags cannot be a symbol.
    """

    corpus: Corpus = REQUIRED
    cleaning: Cleaning = dataclasses.field(default_factory=Cleaning)
    subwords: SubwordRecipe | None = None
    max_length: Count = 256
    workers: Count | None = None
    source_subwords: SubwordRecipe | None = None
    variants: Variants | None = None

    def __post_init__(self) -> None:
        if missing := {"train", "dev"}.difference(self.corpus.splits):
            lacks = " and ".join(f"no split {split}" for split in sorted(missing))
            problem = f"prepare.corpus has {lacks}, expected train and dev"
            raise UserError(f"{problem}: add such sentences, for example with TextFilesCorpus.dev.")
        # Built now, so that a wrong value is reported before any work.
        _ = self.recipes

    @cached_property
    def recipes(self) -> SubwordRecipes:
        """The recipes of the source's and the target's subwords, tags of a mixture among them."""
        recipe = self.subwords or SubwordTraining()
        tags = [symbol for part in parts_of(self.corpus) for symbol in part.tag]
        if not self.source_subwords:
            # One object on both sides means one model.
            shared = recipe.with_symbols(tags)
            return SubwordRecipes(shared, shared)
        # Tags stand in front of sources, so the target's own vocabulary needs none.
        return SubwordRecipes(self.source_subwords.with_symbols(tags), target=recipe)

    def with_subwords_of(self, model_dir: Path) -> "Preparation":
        """Returns the settings with the existing subwords of a model directory.

        Raises:
            UserError: a file of the subwords is missing or cannot be used.
        """
        pair = open_pair(model_dir)
        if pair.source is pair.target:
            return dataclasses.replace(self, subwords=ExistingSubwords(str(model_dir)))
        source, target = (ExistingSubwords(str(model_dir), side) for side in ("source", "target"))
        return dataclasses.replace(self, subwords=target, source_subwords=source)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """All settings that determine the data, as JSON values; equal ones mean equal data."""
        source, target = self.recipes
        values = {
            "format": _FORMAT,
            "corpus": self.corpus.describe(),
            "cleaning": dataclasses.asdict(self.cleaning),
            "subwords": target.describe(),
            "max_length": self.max_length,
        }
        # Only where they are bound: older data lack them, and must stay equal.
        if source is not target:
            values["source_subwords"] = source.describe()
        if self.variants:
            values["variants"] = dataclasses.asdict(self.variants)  # type: ignore[call-overload]
        # As a manifest is read back, with lists for tuples.
        return json.loads(json.dumps(values))

    def mixture(self, data: PreparedData, seed: int) -> EpochMixture | None:
        """Returns the sentences of each epoch of a mixture; None for a single corpus.

        Args:
            data: made with these settings; the weights may have changed since.
            seed: seed of the run.
        """
        if not isinstance(self.corpus, Mixture):
            return None
        corpora = data.corpora("train")
        counts = self.corpus.counts({name: len(sentences) for name, sentences in corpora.items()})
        return EpochMixture(corpora, counts, seed)


def prepare_corpus(settings: Preparation, data_dir: Path) -> None:
    """Fetches and checks a corpus.

    If the data are prepared, checks that the corpus has the same files.

    Args:
        settings: those of the subwords do not matter, but an existing model must be there.
        data_dir: see `prepared`.

    Raises:
        UserError: the corpus cannot be used, or files have changed since the data were prepared.
    """
    if (data_dir / DIRECTORY).exists():
        data = PreparedData(data_dir / DIRECTORY)
        # With the data's own settings, so that only the corpus can differ.
        data.check_made_with(data.identity | {"corpus": settings.identity["corpus"]})
    else:
        settings.corpus.prepare(data_dir / DOWNLOADS)
