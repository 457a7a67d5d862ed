"""Table 3 as a picture: how far each row lies from base in BLEU."""

import math
import statistics
from pathlib import Path
from typing import Any

from findings import Difference, Spread
from t2t_repro.errors import UserError
from table_3 import BASE, BLEU, TABLE_3, Runs, samples

_ROWS = tuple(row for row in TABLE_3 if row.name != BASE)
_FAR = 12.0
"""By how many times the median difference a row may lie from base within the picture."""


def write_plot(runs: Runs, path: Path) -> None:
    """Draws the paper's difference from base beside ours, with its 95 % interval, for each row.

    A bar that is far longer than the others is cut.

    Raises:
        UserError: base has not been evaluated.
    """
    found = samples(runs, BLEU)
    if BASE not in found:
        raise UserError(
            f"the plot shows differences from {BASE}, which has no dev BLEU: evaluate it with "
            "--split=dev --checkpoint=latest."
        )
    from matplotlib.figure import Figure

    spread = Spread.pooled(found.values())
    differences = {
        name: spread.difference(one, found[BASE]) for name, one in found.items() if name != BASE
    }
    figure = Figure(figsize=(8, 8), layout="tight")
    _draw_bars(figure.add_subplot(), differences)
    figure.savefig(path, format="png", dpi=110)


def farthest(differences: dict[str, Difference]) -> float:
    """Returns the largest difference in BLEU that is drawn, so that no row hides the others."""
    lengths = [abs(row.bleu - TABLE_3[0].bleu) for row in _ROWS]
    lengths += [abs(one.value) + (one.half_width or 0.0) for one in differences.values()]
    return 1.05 * min(max(lengths), _FAR * statistics.median(lengths))


def _draw_bars(axis: Any, differences: dict[str, Difference]) -> None:
    """Draws two bars a row, ours only if it was measured."""
    places = range(len(_ROWS))
    measured = [differences.get(row.name, Difference(math.nan, None)) for row in _ROWS]
    published = [row.bleu - TABLE_3[0].bleu for row in _ROWS]
    axis.barh([y - 0.2 for y in places], published, 0.4, label="paper")
    axis.barh(
        [y + 0.2 for y in places],
        [one.value for one in measured],
        0.4,
        xerr=[math.nan if one.half_width is None else one.half_width for one in measured],
        error_kw={"linewidth": 1.0, "capsize": 2},
        label="measured (95 % interval over seeds)",
    )
    axis.set_yticks(places, [f"({row.group}) {row.name}" for row in _ROWS])
    axis.invert_yaxis()
    limit = farthest(differences)
    axis.set_xlim(-limit, limit)
    beside = axis.secondary_yaxis("right")
    texts = [
        differences[row.name].show(BLEU.digits) if row.name in differences else "not measured"
        for row in _ROWS
    ]
    beside.set_yticks(places, texts)
    beside.tick_params(length=0)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlabel("dev BLEU, difference from base")
    axis.margins(y=0.02)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
