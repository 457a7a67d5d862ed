"""Tables of scores, in Markdown or JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from t2t_repro.evaluation.significance import Estimate

_LEVEL = 0.05


class Row(NamedTuple):
    """A system and its scores.

    Attributes:
        name: of the system: its file, or model directory.
        estimates: one for each metric, in the same order for all systems.
        perplexity: per subword, of a model on a split of the data.
    """

    name: str
    estimates: Sequence[Estimate]
    perplexity: float | None = None


def as_markdown(rows: Sequence[Row], has_baseline: bool) -> list[str]:
    """Returns the lines of a table, a row a system, and of notes below it.

    Args:
        rows: with the same metrics.
        has_baseline: whether the first row is the baseline of the p-values.
    """
    metrics = [estimate.score for estimate in rows[-1].estimates]
    head = [f"{one.name} {'↑' if one.higher_is_better else '↓'}" for one in metrics]
    cells = [["system", *head]]
    for row in rows:
        pairs = zip(row.estimates, rows[0].estimates, strict=True)
        cells.append([row.name, *(_cell(one, baseline) for one, baseline in pairs)])
    if has_baseline:
        cells[1][0] += " (baseline)"
    lines = [f"| {' | '.join(cell.replace('|', '¦') for cell in of_row)} |" for of_row in cells]
    lines.insert(1, "|---" + "|---:" * len(metrics) + "|")
    return [*lines, "", _note(rows, has_baseline), "", *_signatures(rows, has_baseline)]


def as_json(rows: Sequence[Row], has_baseline: bool) -> list[str]:
    """Returns the lines of all figures, unrounded; see `as_markdown`."""
    table = [
        {
            "system": row.name,
            "is_baseline": has_baseline and number == 0,
            **({} if row.perplexity is None else {"perplexity": row.perplexity}),
            "scores": [
                {
                    **one.score.as_dict(),
                    "mean": one.mean,
                    "half_width": one.half_width,
                    "p_value": one.p_value,
                }
                for one in row.estimates
            ],
        }
        for number, row in enumerate(rows)
    ]
    return [json.dumps(table, indent=2, ensure_ascii=False)]


def as_lines(row: Row) -> list[str]:
    """Returns a line for each score of a system, with its interval and signature."""
    return [
        f"{one.score.name} {_cell(one, one)}"
        + (f"  [{one.score.signature}]" if one.score.signature else "")
        for one in row.estimates
    ]


def _cell(estimate: Estimate, baseline: Estimate) -> str:
    parts = [f"{estimate.score.value:.2f}"]
    if estimate.mean is not None:
        parts.append(f"(μ = {estimate.mean:.2f} ± {estimate.half_width:.2f})")
    if estimate.p_value is not None:
        # sacreBLEU gives the smallest possible p to a system with the baseline's own score.
        differs = estimate.score.value != baseline.score.value
        star = "*" if differs and estimate.p_value < _LEVEL else ""
        parts.append(f"p = {estimate.p_value:.4f}{star}")
    return " ".join(parts)


def _note(rows: Sequence[Row], has_baseline: bool) -> str:
    note = "↑ higher is better, ↓ lower is."
    if any(estimate.mean is not None for row in rows for estimate in row.estimates):
        note += " μ ± : mean of bootstrap samples, and half of their 95 % interval."
    if has_baseline:
        note += (
            " p: probability of a difference from the baseline at least as large by chance; * below"
            f" {_LEVEL}."
        )
    return note


def _signatures(rows: Sequence[Row], has_baseline: bool) -> Iterator[str]:
    for estimate in rows[-1].estimates:
        parts = [f"`{estimate.score.signature}`"] if estimate.score.signature else []
        if has_baseline and estimate.p_value is None:
            parts.append("no significance test: not one of sacreBLEU's metrics")
        if parts:
            yield f"- {estimate.score.name}: {'; '.join(parts)}"
