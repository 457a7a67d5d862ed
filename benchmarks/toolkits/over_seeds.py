"""Compares what toolkits translate, each after several trainings with other seeds."""

import itertools
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF

from t2t_repro.data.line_files import read_lines
from t2t_repro.evaluation.scores import Score, Segments
from t2t_repro.evaluation.significance import compare

FACTS = "facts.json"
"""Lies beside the translations of a training that is done: what is known of it."""

T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % points of Student's distribution, by degrees of freedom from 1."""

Counts = dict[str, NDArray]
"""By the name of a seed's folder: what a metric counts, [sentence, counted]."""


class _OfCounts:
    """Has a metric of sacreBLEU's take counts in the place of sentences."""

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        # For the signature, which is not shown.
        self.num_refs = 1
        return hypotheses


_METRICS = [(one(), type("Counted", (_OfCounts, one), {})()) for one in (BLEU, CHRF)]


def report(run_dir: Path, split: str, toolkits: Sequence[str]) -> Iterator[str]:
    """Yields two tables in Markdown: each toolkit's means, and the differences of each pair.

    A mean is with Student's 95 % interval over seeds. A difference is that of all translations by
    the seeds that both have; its p-value is by paired bootstrap, which draws a sentence with the
    translations of all seeds.

    Args:
        run_dir: has `<split>.de`, and every seed's translations as `<toolkit>/seed_<n>/<split>.de`.
        split: that was translated.
        toolkits: those without translations are left out.
    """
    folders = {one: _folders(run_dir / one) for one in toolkits if _folders(run_dir / one)}
    references = list(read_lines(run_dir / f"{split}.de"))
    scored: dict[str, list[str]] = {one: [] for one in folders}
    pairs: dict[tuple[str, str], list[str]] = {
        one: [] for one in itertools.combinations(folders, 2)
    }
    for metric, of_counts in _METRICS:
        counts: dict[str, Counts] = {one: {} for one in folders}
        for one, its_folders in folders.items():
            for folder in its_folders:
                lines = list(read_lines(folder / f"{split}.de"))
                found = metric._extract_corpus_statistics(lines, [references])
                counts[one][folder.name] = np.array(found)
            scored[one].append(_mean([_score(of_counts, each) for each in counts[one].values()]))
        for pair, cells in pairs.items():
            cells.append(_difference(of_counts, *(counts[one] for one in pair)))
    yield from (f"| {split} | seeds | BLEU | chrF | core hours |", "|---|---:|---:|---:|---:|")
    for one, cells in scored.items():
        facts = [json.loads((each / FACTS).read_text(encoding="utf-8")) for each in folders[one]]
        hours = statistics.mean(fact["cpu_hours"] for fact in facts)
        yield f"| {one} | {len(facts)} | {' | '.join(cells)} | {hours:.2f} |"
    yield from ("", f"| {split} | BLEU | chrF |", "|---|---:|---:|")
    for pair, cells in pairs.items():
        yield f"| {' − '.join(pair)} | {' | '.join(cells)} |"


def _folders(of_toolkit: Path) -> list[Path]:
    return sorted(facts.parent for facts in of_toolkit.glob(f"seed_*/{FACTS}"))


def _mean(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}"
    half_width = T_QUANTILES[len(values) - 2] * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.2f} ± {half_width:.2f}"


def _difference(metric: Any, one: Counts, other: Counts) -> str:
    seeds = one.keys() & other.keys()
    if not seeds:
        return "–"
    sums = [np.sum([counts[seed] for seed in seeds], axis=0) for counts in (other, one)]
    # The second is compared with the first.
    scores = [Score("", _score(metric, each), segments=Segments(metric, each, [])) for each in sums]
    p_value = compare(scores)[1].p_value
    return f"{scores[1].value - scores[0].value:+.2f} (p {p_value:.3f})"


def _score(metric: Any, counts: NDArray) -> float:
    return float(metric._compute_score_from_stats(counts.sum(0)).score)
