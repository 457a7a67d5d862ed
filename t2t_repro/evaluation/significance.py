"""Compares systems: sacreBLEU's intervals and significance tests, as a table or JSON.

The figures equal those of sacreBLEU's command line (--confidence, --paired-bs, --paired-ar). They
exist for its metrics, whose `Score` has segments; other metrics have the score alone.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sacrebleu.significance import PairedTest

from t2t_repro.evaluation.scores import Score

Test = Literal["bootstrap", "randomisation"]
"""Paired bootstrap (Koehn 2004), or approximate randomisation (Riezler and Maxwell 2005).

sacreBLEU's seed is 12345, or in the environment variable SACREBLEU_SEED."""

_SIGNIFICANCE_LEVEL = 0.05


class Estimate(NamedTuple):
    """A score with its confidence interval and p-value.

    Attributes:
        score: the score, with the resampling in its signature.
        mean: mean score of samples of sentences, drawn with replacement; None if not computed.
        half_width: half of the samples' 95 % interval; None if not computed.
        p_value: probability of a difference from the baseline at least as large by chance; None for
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
        perplexity: of a model on a split of the data, per subword; None if not computed.
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
        scores: the score of the baseline, then of every other system, on the same sentences. A
            single system has no p-value, only its interval.
        test: the significance test; None for the scores alone.
        samples: the number of samples of the test; by default sacreBLEU's: 1,000 for the bootstrap,
            10,000 for randomisation.
        with_interval: adds intervals, of 1,000 samples, to randomisation; the bootstrap always has
            them.

    Returns:
        an estimate for each score: the score alone if a metric is not one of sacreBLEU's.
    """
    systems = [score.segments for score in scores if score.segments]
    # Other metrics than sacreBLEU's have no segments.
    if test is None or len(systems) < len(scores):
        return [Estimate(score) for score in scores]
    paired_test = PairedTest(
        named_systems=[(str(n), segments.translations) for n, segments in enumerate(systems)],
        metrics={"": systems[0].metric},
        references=systems[0].references,
        test_type="bs" if test == "bootstrap" else "ar",
        n_samples=samples or 0,
        # 0 is sacreBLEU's default number, -1 is without intervals.
        n_ar_confidence=0 if with_interval and test == "randomisation" else -1,
    )
    signatures, columns = paired_test()
    signature = systems[0].signature(*signatures.values())
    # A column of the systems' names, and one of the results of the only metric.
    _, results = columns.values()
    return [
        _estimate(score._replace(signature=signature), result, baseline=scores[0])
        for score, result in zip(scores, results, strict=True)
    ]


def _estimate(score: Score, result: Any, baseline: Score) -> Estimate:
    """Returns the estimate of a score.

    Args:
        score: the score of a system.
        result: sacreBLEU's `Result` of the system.
        baseline: the baseline's score, by the same metric.
    """
    figures = (result.mean, result.ci, result.p_value)
    # NumPy's numbers cannot be written as JSON.
    mean, half_width, p_value = (None if figure is None else float(figure) for figure in figures)
    # sacreBLEU gives the smallest possible p-value to a system that equals the baseline.
    if p_value is not None and score.value == baseline.value:
        p_value = 1.0
    return Estimate(score, mean, half_width, p_value)


def as_markdown(systems: Sequence[System], has_baseline: bool) -> list[str]:
    """Returns the lines of a Markdown table with a row for each system, and of notes below it.

    Args:
        systems: systems with the same metrics.
        has_baseline: whether the first system is the baseline of the p-values.
    """
    scores = [estimate.score for estimate in systems[-1].estimates]  # All systems have the same.
    heads = [f"{score.name} {'↑' if score.higher_is_better else '↓'}" for score in scores]
    lines = [_row("system", heads), "|---" + "|---:" * len(scores) + "|"]
    for number, system in enumerate(systems):
        mark = " (baseline)" if has_baseline and number == 0 else ""
        lines.append(_row(system.name + mark, map(_cell, system.estimates)))
    note = "↑ higher is better, ↓ lower is."
    if any(estimate.mean is not None for system in systems for estimate in system.estimates):
        note += " μ ± : mean of bootstrap samples, and half of their 95 % interval."
    if has_baseline:
        by_chance = "probability of a difference from the baseline at least as large by chance"
        note += f" p: {by_chance}; * below {_SIGNIFICANCE_LEVEL}."
    return [*lines, "", note, "", *_signatures(systems[-1], has_baseline)]  # Not the baseline's.


def as_json(systems: Sequence[System], has_baseline: bool) -> list[str]:
    """Returns one text: the systems as a JSON list, with unrounded figures.

    Args:
        systems: systems with the same metrics.
        has_baseline: whether the first system is the baseline of the p-values.
    """
    table = []
    for number, system in enumerate(systems):
        entry: dict[str, Any] = {"system": system.name, "is_baseline": has_baseline and number == 0}
        if system.perplexity is not None:
            entry["perplexity"] = system.perplexity
        entry["scores"] = [
            {**score.as_dict(), "mean": mean, "half_width": half_width, "p_value": p_value}
            for score, mean, half_width, p_value in system.estimates
        ]
        table.append(entry)
    return [json.dumps(table, indent=2, ensure_ascii=False)]


def as_lines(system: System) -> Iterator[str]:
    """Yields a line for each score: metric, value, interval and signature."""
    for estimate in system.estimates:
        name, signature = estimate.score.name, estimate.score.signature
        yield f"{name} {_cell(estimate)}" + (f"  [{signature}]" if signature else "")


def _row(system: str, cells: Iterable[str]) -> str:
    """Returns a row of a Markdown table, from the text of its first cell and of all others."""
    # A bar in a system's name would end its cell.
    row = [cell.replace("|", "¦") for cell in (system, *cells)]
    return f"| {' | '.join(row)} |"


def _cell(estimate: Estimate) -> str:
    """Returns a score with its interval and p-value, where there are any.

    With both it is, for example, 27.30 (μ = 27.29 ± 0.41) p = 0.0120*.
    """
    figures = [f"{estimate.score.value:.2f}"]
    if estimate.mean is not None:
        figures.append(f"(μ = {estimate.mean:.2f} ± {estimate.half_width:.2f})")
    if estimate.p_value is not None:
        star = "*" if estimate.p_value < _SIGNIFICANCE_LEVEL else ""
        figures.append(f"p = {estimate.p_value:.4f}{star}")
    return " ".join(figures)


def _signatures(system: System, has_baseline: bool) -> Iterator[str]:
    """Yields a line for each score with a signature, or with a reason why it has no p-value.

    Args:
        system: one that is not the baseline, which never has p-values.
        has_baseline: whether there is a baseline to compare it with.
    """
    for estimate in system.estimates:
        remarks = [f"`{estimate.score.signature}`"] if estimate.score.signature else []
        if has_baseline and estimate.p_value is None:
            remarks.append("no significance test: not one of sacreBLEU's metrics")
        if remarks:
            yield f"- {estimate.score.name}: {'; '.join(remarks)}"
