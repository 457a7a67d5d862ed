"""Scores of several systems as one table, in Markdown or JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from t2t_repro.evaluation.significance import Estimate

_LEVEL = 0.05


class Row(NamedTuple):
    """What is known of a system.

    Attributes:
        name: of the system: its file, or model directory.
        estimates: by every metric, in the order of all systems.
        perplexity: per subword, of a model on a split of the data.
    """

    name: str
    estimates: Sequence[Estimate]
    perplexity: float | None = None


def as_markdown(rows: Sequence[Row], has_baseline: bool) -> list[str]:
    """Writes a row a system, and below how each score was computed.

    Args:
        rows: by the same metrics.
        has_baseline: whether the first is what the others are compared with.

    Returns:
        the lines.
    """
    metrics = [found.score for found in rows[-1].estimates]
    head = [f"{one.name} {'↑' if one.higher_is_better else '↓'}" for one in metrics]
    cells = [["system", *head]]
    for row in rows:
        pairs = zip(row.estimates, rows[0].estimates, strict=True)
        cells.append([row.name, *(_cell(one, other) for one, other in pairs)])
    if has_baseline:
        cells[1][0] += " (baseline)"
    lines = [f"| {' | '.join(cell.replace('|', '¦') for cell in of_row)} |" for of_row in cells]
    lines.insert(1, "|---" + "|---:" * len(metrics) + "|")
    return [*lines, "", _note(rows, has_baseline), "", *_signatures(rows, has_baseline)]


def as_json(rows: Sequence[Row], has_baseline: bool) -> str:
    """Writes all that is known of every system, unrounded.

    Args:
        rows: by the same metrics.
        has_baseline: whether the first is what the others are compared with.
    """
    found = [
        {
            "system": row.name,
            "is_baseline": has_baseline and number == 0,
            **({} if row.perplexity is None else {"perplexity": row.perplexity}),
            "scores": [one.score.as_dict() | _resampled(one) for one in row.estimates],
        }
        for number, row in enumerate(rows)
    ]
    return json.dumps(found, indent=2, ensure_ascii=False)


def line(found: Estimate) -> str:
    """Writes a score alone, with its interval where there is one, and its signature."""
    signature = f"  [{found.score.signature}]" if found.score.signature else ""
    return f"{found.score.name} {_cell(found, found)}{signature}"


def _cell(found: Estimate, baseline: Estimate) -> str:
    parts = [f"{found.score.value:.2f}"]
    if found.mean is not None:
        parts.append(f"(μ = {found.mean:.2f} ± {found.half_width:.2f})")
    if found.p_value is not None:
        # sacreBLEU gives a system with the baseline's score the least p there is.
        is_other = found.score.value != baseline.score.value
        parts.append(f"p = {found.p_value:.4f}{'*' if is_other and found.p_value < _LEVEL else ''}")
    return " ".join(parts)


def _note(rows: Sequence[Row], has_baseline: bool) -> str:
    note = "↑ more is better, ↓ less is."
    if any(found.mean is not None for row in rows for found in row.estimates):
        note += " μ ± : mean over bootstrap samples, and half of their 95 % interval."
    if has_baseline:
        note += (
            " p: how likely a difference from the baseline as great as this one, or greater, is by "
            f"chance; * where below {_LEVEL}."
        )
    return note


def _signatures(rows: Sequence[Row], has_baseline: bool) -> Iterator[str]:
    """How the score of every metric was computed, where its name does not say it all."""
    for found in rows[-1].estimates:
        parts = [f"`{found.score.signature}`"] if found.score.signature else []
        if has_baseline and found.p_value is None:
            parts.append("no significance test: not one of sacreBLEU's metrics")
        if parts:
            yield f"- {found.score.name}: {'; '.join(parts)}"


def _resampled(found: Estimate) -> dict[str, Any]:
    return {"mean": found.mean, "half_width": found.half_width, "p_value": found.p_value}
