"""Scores the dev set in training: nll, a metric of translations, pictures of attention."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from t2t_repro.data.prepared import PreparedData
from t2t_repro.decoding.translator import Translator
from t2t_repro.evaluation.perplexity import HeldOutLoss
from t2t_repro.evaluation.scores import Score
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.run_state import CorpusScores, DevScores
from t2t_repro.training.settings import DevEvaluationSettings
from t2t_repro.training.workers import Workers

# Rows in the table of translations, rounded up to the same number for each corpus of a mixture.
_SAMPLES = 5

# Sentences that a preview translates.
_PREVIEWED = 3


class Share(NamedTuple):
    """A worker's translations; and for each `_Part`, the nll and target tokens of its batches."""

    translations: list[str]
    nll: Sequence[float]
    tokens: Sequence[float]


class _Part(NamedTuple):
    """The dev split, or one corpus of a mixture's dev split.

    Attributes:
        name: the corpus's name; "" without a mixture.
        lines: the indices of its sentences among the translated ones.
        in_store: the indices of its sentences in the token store; None for all.
    """

    name: str
    lines: slice
    in_store: range | None


@dataclass(eq=False)
class DevEvaluation:
    """Scores the dev set: nll by teacher forcing, BLEU by beam search.

    Another metric may be bound. Each corpus of a mixture is scored by itself too. Each of n workers
    computes an n-th of the sentences and batches.

    Attributes:
        model: the Transformer.
        translator: translates with this model.
        data: its dev split is read.
        workers: the processes that share the work.
        settings: the settings of the evaluation.
    """

    model: Transformer
    translator: Translator
    data: PreparedData
    workers: Workers
    settings: DevEvaluationSettings

    def __post_init__(self) -> None:
        data, images = self.data, self.settings.images
        self._draw_images = images(self.model, data) if images else None
        # The sentences to translate and their references, of all parts one after the other.
        self._source: list[str] = []
        self._target: list[str] = []
        self._parts: list[_Part] = []
        # Without a mixture, the whole split is the only part.
        corpora: Mapping[str, range | None] = data.corpora("dev") or {"": None}
        for name, in_store in corpora.items():
            source, target = data.text(f"dev.{name}" if name else "dev")
            start = len(self._source)
            self._source += source[: self.settings.sentences]
            self._target += target[: self.settings.sentences]
            self._parts.append(_Part(name, slice(start, len(self._source)), in_store))
        self._loss = HeldOutLoss(self.model, data.store("dev"))

    def compute_share(self, preview: bool = False) -> Share:
        """Computes this worker's share of the evaluation.

        Args:
            preview: whether only the first three sentences are translated; nll is of all.

        Returns:
            of n workers, the translations of every n-th sentence and the sums over every n-th
            batch, from this worker's index on.
        """
        index, count = self.workers.index, self.workers.count
        source = self._source[:_PREVIEWED] if preview else self._source
        # first=None: no warnings about long sentences, which every evaluation would repeat.
        n_best_lists = self.translator.translate(source[index::count], first=None)
        translations = [n_best[0].text for n_best in n_best_lists]
        sums = [self._loss.sums(index, count, part.in_store) for part in self._parts]
        return Share(translations, [nll for nll, _ in sums], [tokens for _, tokens in sums])

    def scores(self, shares: list[Any]) -> DevScores:
        """Returns the scores of the dev set, or of a preview.

        Args:
            shares: the `Share` of each worker, in the order of the workers. A share that another
                worker has sent is a list of its fields, as JSON has no named tuples.
        """
        of_workers = [Share(*share) for share in shares]
        texts = [""] * sum(len(share.translations) for share in of_workers)
        for worker, share in enumerate(of_workers):
            # A worker has translated every n-th sentence, from its own number on.
            texts[worker :: len(of_workers)] = share.translations
        # Of each part, the sums over all workers.
        nll = [sum(share.nll[i] for share in of_workers) for i in range(len(self._parts))]
        tokens = [sum(share.tokens[i] for share in of_workers) for i in range(len(self._parts))]
        score = self._score(texts, slice(len(texts)))
        is_preview = len(texts) < len(self._source)
        # A preview lacks most corpora's translations; without a mixture the part has no name.
        corpora = [
            CorpusScores(part.name, part_nll / part_tokens, self._score(texts, part.lines).value)
            for part, part_nll, part_tokens in zip(self._parts, nll, tokens, strict=True)
            if part.name and not is_preview
        ]
        return DevScores(
            nll=sum(nll) / sum(tokens),
            score=score.value,
            samples=self._samples(texts),
            metric=f"{score.name} of {len(texts)} sentences" if is_preview else score.name,
            images=self._draw_images() if self._draw_images and self.workers.is_chief else [],
            higher_is_better=score.higher_is_better,
            corpora=corpora,
        )

    def _score(self, texts: list[str], lines: slice) -> Score:
        """Scores those of the translations `texts` that `lines` selects."""
        return self.settings.metric(texts[lines], self._target[lines], self._source[lines])

    def _samples(self, texts: list[str]) -> str:
        """Returns a Markdown table of the first of the translations `texts` of every part."""
        per_part = math.ceil(_SAMPLES / len(self._parts))
        table = ["| source | translation | reference |", "|---|---|---|"]
        for part in self._parts:
            columns = [side[part.lines][:per_part] for side in (self._source, texts, self._target)]
            # A preview has fewer translations than there are sources.
            for row in zip(*columns, strict=False):
                cells = (cell.replace("\n", " ").replace("|", "¦") for cell in row)
                table.append(f"| {' | '.join(cells)} |")
        return "\n".join(table)
