"""Compares systems: sacreBLEU's intervals and significance tests, as a table or JSON.

The figures equal those of sacreBLEU's command line (--confidence, --paired-bs, --paired-ar). They
exist for its metrics, whose `Score` has segments; other metrics have the score alone.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sacrebleu.significance import PairedTest

from t2t_repro.evaluation.scores import Score

Test = Literal["bootstrap", "randomisation"]
"""Paired bootstrap (Koehn 2004), or approximate randomisation (Riezler and Maxwell 2005).

sacreBLEU's seed is 12345, or in the environment variable SACREBLEU_SEED."""

_LEVEL = 0.05


class Estimate(NamedTuple):
    """A score with its confidence interval and p-value.

    Attributes:
        score: the score, with the resampling in its signature.
        mean: mean score of samples of sentences, drawn with replacement; None if not computed.
        half_width: half of the samples' 95 % interval; None if not computed.
        p_value: probability of a difference from the baseline at least as large by chance; None of
            the baseline, and if not computed.
    """

    score: Score
    mean: float | None = None
    half_width: float | None = None
    p_value: float | None = None


class System(NamedTuple):
    """A system and its scores.

    Attributes:
        name: the system's file, or model directory.
        translations: one for each sentence.
        perplexity: per subword, of a model on a split of the data.
        estimates: one for each metric, in the same order for all systems.
    """

    name: str
    translations: Sequence[str]
    perplexity: float | None = None
    estimates: Sequence[Estimate] = ()


def compare(
    scores: Sequence[Score],
    test: Test | None = "bootstrap",
    samples: int | None = None,
    with_interval: bool = False,
) -> list[Estimate]:
    """Compares systems with a baseline, by one metric.

    Args:
        scores: the scores of the baseline, then of every system, on the same sentences. Of a single
            system, the interval is estimated.
        test: the significance test; None for the scores alone.
        samples: their number; by default sacreBLEU's: 1,000, for randomisation 10,000.
        with_interval: adds intervals, of 1,000 samples, to randomisation; the bootstrap always has
            them.
    """
    segments = [score.segments for score in scores if score.segments]
    if test is None or len(segments) < len(scores):
        return [Estimate(score) for score in scores]
    paired_test = PairedTest(
        [(str(number), system.translations) for number, system in enumerate(segments)],
        {"": segments[0].metric},
        segments[0].references,
        "bs" if test == "bootstrap" else "ar",
        samples or 0,
        0 if with_interval and test == "randomisation" else -1,
    )
    signatures, results_by_name = paired_test()
    signature = segments[0].signature(*signatures.values())
    results: Any = list(results_by_name.values())[1]
    estimates = []
    for score, result in zip(scores, results, strict=True):
        is_equal = result.p_value is not None and score.value == scores[0].value
        # sacreBLEU gives the smallest possible p where there is no difference.
        figures = (result.mean, result.ci, 1.0 if is_equal else result.p_value)
        # JSON cannot hold NumPy's numbers.
        as_floats = (None if figure is None else float(figure) for figure in figures)
        estimates.append(Estimate(score._replace(signature=signature), *as_floats))
    return estimates


def as_markdown(systems: Sequence[System], has_baseline: bool) -> list[str]:
    """Returns the lines of a table, and of notes below it.

    It has a row for each system.

    Args:
        systems: systems with the same metrics.
        has_baseline: whether the first system is the baseline of the p-values.
    """
    metrics = [estimate.score for estimate in systems[-1].estimates]
    head = [f"{metric.name} {'↑' if metric.higher_is_better else '↓'}" for metric in metrics]
    rows = [["system", *head]]
    rows += [[system.name, *map(_cell, system.estimates)] for system in systems]
    if has_baseline:
        rows[1][0] += " (baseline)"
    lines = [f"| {' | '.join(cell.replace('|', '¦') for cell in row)} |" for row in rows]
    lines.insert(1, "|---" + "|---:" * len(metrics) + "|")
    note = "↑ higher is better, ↓ lower is."
    if any(estimate.mean is not None for system in systems for estimate in system.estimates):
        note += " μ ± : mean of bootstrap samples, and half of their 95 % interval."
    if has_baseline:
        note += (
            " p: probability of a difference from the baseline at least as large by chance; * below"
            f" {_LEVEL}."
        )
    return [*lines, "", note, "", *_signatures(systems[-1], has_baseline)]


def as_json(systems: Sequence[System], has_baseline: bool) -> list[str]:
    """Returns the lines of all figures, unrounded (see `as_markdown`)."""
    table = [
        {
            "system": system.name,
            "is_baseline": has_baseline and number == 0,
            **({} if system.perplexity is None else {"perplexity": system.perplexity}),
            "scores": [
                {**score.as_dict(), "mean": mean, "half_width": half_width, "p_value": p_value}
                for score, mean, half_width, p_value in system.estimates
            ],
        }
        for number, system in enumerate(systems)
    ]
    return [json.dumps(table, indent=2, ensure_ascii=False)]


def as_lines(system: System) -> list[str]:
    """Returns a line with interval and signature for each score."""
    return [
        f"{estimate.score.name} {_cell(estimate)}"
        + (f"  [{estimate.score.signature}]" if estimate.score.signature else "")
        for estimate in system.estimates
    ]


def _cell(estimate: Estimate) -> str:
    """Returns a score with its interval and p-value, where there are any."""
    parts = [f"{estimate.score.value:.2f}"]
    if estimate.mean is not None:
        parts.append(f"(μ = {estimate.mean:.2f} ± {estimate.half_width:.2f})")
    if estimate.p_value is not None:
        parts.append(f"p = {estimate.p_value:.4f}{'*' if estimate.p_value < _LEVEL else ''}")
    return " ".join(parts)


def _signatures(system: System, has_baseline: bool) -> Iterator[str]:
    """Yields a line for each score: its signature, and why it has no p-value."""
    for estimate in system.estimates:
        parts = [f"`{estimate.score.signature}`"] if estimate.score.signature else []
        if has_baseline and estimate.p_value is None:
            parts.append("no significance test: not one of sacreBLEU's metrics")
        if parts:
            yield f"- {estimate.score.name}: {'; '.join(parts)}"
