"""The paper's Table 3 with what was measured beside what was published."""

import csv
import io
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_repro.analysis.attention_plots import as_png, check_matplotlib
from t2t_repro.analysis.parameter_count import parameter_count
from t2t_repro.analysis.run_record import Run, read_run
from t2t_repro.analysis.table_3 import TABLE_3, Row
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU

Runs = Mapping[str, Run]
"""The runs by the name of their row, for those that there are."""


class Finding(NamedTuple):
    """Something the paper concludes from its table, as pairs of rows.

    Attributes:
        text: the paper's words, shortened (section 6.2).
        pairs: (worse row, better row), by name.
        tolerance: in BLEU; None where the better must be better, otherwise how far they may lie
            apart.
    """

    text: str
    pairs: tuple[tuple[str, str], ...]
    tolerance: float | None = None


_BASE = "base_ende"
_MOST_NAMED = 3
FINDINGS = (
    Finding("A: a single head is worse than the best setting", (("a_1_head", _BASE),)),
    Finding("A: too many heads are worse", (("a_32_heads", _BASE),)),
    Finding(
        "B: a smaller d_k is worse",
        (("b_d_k_16", "b_d_k_32"), ("b_d_k_32", _BASE), ("b_d_k_16", _BASE)),
    ),
    Finding(
        "C: bigger models are better",
        (
            ("c_2_layers", "c_4_layers"),
            ("c_4_layers", _BASE),
            ("c_d_model_256", _BASE),
            (_BASE, "c_d_model_1024"),
            ("c_d_ff_1024", _BASE),
            (_BASE, "c_d_ff_4096"),
            (_BASE, "big_ende"),
        ),
    ),
    Finding("D: dropout helps", (("d_dropout_0_0", _BASE),)),
    Finding("D: label smoothing helps BLEU", (("d_label_smoothing_0_0", _BASE),)),
    Finding(
        "E: learned positions are nearly as good as sinusoids",
        (("e_learned_positions", _BASE),),
        tolerance=0.5,
    ),
)


def read_runs(folder: Path) -> dict[str, Run]:
    """Reads the runs of Table 3's rows below a folder: <folder>/<row>/model.

    Raises:
        UserError: there is none, or a file of one is damaged.
    """
    found = {row.name: read_run(folder / row.name / "model") for row in TABLE_3}
    runs = {name: run for name, run in found.items() if run}
    if not runs:
        raise UserError(
            f"--runs={folder} holds no run of Table 3, expected folders such as "
            f"{folder / TABLE_3[1].name / 'model'}: train one, see scripts/reproduce_table3.sh."
        )
    return runs


def other_sizes(runs: Runs) -> str | None:
    """Says which runs have the name of a row, but not its number of parameters; None if none.

    They can be compared with each other, as those of a Table 3 in small, and not with the paper.
    """
    found = [
        f"{row.name} {millions:.1f} million in place of {row.millions}"
        for row in TABLE_3
        if (run := runs.get(row.name))
        and abs((millions := parameter_count(run.shape) / 1e6) - row.millions) > row.millions / 10
    ]
    if not found:
        return None
    named = found[:_MOST_NAMED] + ["..."] * (len(found) > _MOST_NAMED)
    return (
        f"{len(found)} of {len(runs)} runs are not the paper's models, by their parameters "
        f"({'; '.join(named)}): "
        "compare them with each other, not with the paper's columns"
    )


def dev_bleu(run: Run) -> float | None:
    """BLEU on the dev split as the paper measured it, or None."""
    score = run.dev.score(PAPER_BLEU) if run.dev else None
    return score.value if score else None


def as_markdown(runs: Runs) -> str:
    """Writes the table, and which of the paper's findings the runs show."""
    lines = [
        "Of each pair of columns the first is the paper's. Perplexity is per subword and BLEU "
        "tokenised, both on the dev set.",
        "",
        "| | row | steps | measured | perplexity | measured | BLEU | measured | parameters ×10⁶ "
        "| measured | training FLOPs | tokens/s | checkpoint |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_cells(row, runs.get(row.name)))} |" for row in TABLE_3]
    lines += ["", "| finding of the paper | here | differences in BLEU |", "|---|---|---|"]
    lines += [f"| {' | '.join(judge(finding, runs))} |" for finding in FINDINGS]
    return "\n".join(lines) + "\n"


def judge(finding: Finding, runs: Runs) -> tuple[str, str, str]:
    """Says whether the runs show a finding: (its text, the verdict, differences in BLEU).

    Pairs of which a run is missing are left out.
    """
    bleu = {name: value for name, run in runs.items() if (value := dev_bleu(run)) is not None}
    differences = {
        f"{better} − {worse}": bleu[better] - bleu[worse]
        for worse, better in finding.pairs
        if worse in bleu and better in bleu
    }
    if not differences:
        return finding.text, "not measured", "–"
    limit = finding.tolerance
    shown = [gain > 0 if limit is None else abs(gain) <= limit for gain in differences.values()]
    verdict = "agrees" if all(shown) else f"{sum(shown)} of {len(shown)}" if any(shown) else "no"
    texts = [f"{pair} = {gain:+.2f}" for pair, gain in differences.items()]
    return finding.text, verdict, "; ".join(texts)


_PUBLISHED = ("steps", "perplexity", "bleu", "millions")
_MEASURED: dict[str, Callable[[Any], str]] = {
    "steps": "{:,}".format,
    "perplexity": "{:.2f}".format,
    "bleu": "{:.1f}".format,
    "parameters": lambda count: f"{count / 1e6:.1f}",
    "training_operations": lambda count: f"{count:.1e}".replace("e+", "e"),
    "tokens_per_second": "{:,.0f}".format,
    "checkpoint": str,
}
"""Figures of a run, and how people read them."""


def _measured(run: Run | None) -> dict[str, Any]:
    """The figures of a run, None where one is not known."""
    figures = dict.fromkeys(_MEASURED)
    if run is None:
        return figures
    return figures | {
        "steps": run.steps,
        "perplexity": run.dev and run.dev.perplexity,
        "bleu": dev_bleu(run),
        "parameters": parameter_count(run.shape),
        "training_operations": run.operations,
        "tokens_per_second": run.tokens_per_second,
        "checkpoint": run.dev and run.dev.checkpoint,
    }


def _cells(row: Row, run: Run | None) -> list[str]:
    figures = _measured(run)
    ours = ["–" if figures[x] is None else show(figures[x]) for x, show in _MEASURED.items()]
    published = (f"{row.steps:,}", f"{row.perplexity:.2f}", f"{row.bleu}", f"{row.millions}")
    pairs = [cell for pair in zip(published, ours[:4], strict=True) for cell in pair]
    return [row.group, row.change, *pairs, *ours[4:]]


def as_csv(runs: Runs) -> str:
    """Writes the table with every figure in full, for programs."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    paper, ours = [f"paper_{name}" for name in _PUBLISHED], [f"our_{name}" for name in _MEASURED]
    writer.writerow(["group", "name", *paper, *ours])
    for row in TABLE_3:
        published = (getattr(row, name) for name in _PUBLISHED)
        writer.writerow([row.group, row.name, *published, *_measured(runs.get(row.name)).values()])
    return file.getvalue()


def write_plot(runs: Runs, path: Path) -> None:
    """Draws how far each row lies from base in BLEU: the paper's bar beside ours.

    Raises:
        UserError: base has not been evaluated, or matplotlib is not installed.
    """
    base = dev_bleu(runs[_BASE]) if _BASE in runs else None
    if base is None:
        raise UserError(
            "the plot shows differences from base_ende, which has no dev BLEU: train it, then "
            "evaluate it with --split=dev --checkpoint=latest."
        )
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 8), layout="tight")
    _draw_bars(figure.add_subplot(), runs, base)
    path.write_bytes(as_png(figure))


def _draw_bars(axis: Any, runs: Runs, base: float) -> None:
    """Two bars a row; where nothing was measured there is none, and the label says so."""
    rows = [row for row in TABLE_3 if row.name != _BASE]
    bleu = [dev_bleu(runs[row.name]) if row.name in runs else None for row in rows]
    published = [row.bleu - TABLE_3[0].bleu for row in rows]
    measured = [math.nan if ours is None else ours - base for ours in bleu]
    axis.barh([y - 0.2 for y in range(len(rows))], published, 0.4, label="paper")
    axis.barh([y + 0.2 for y in range(len(rows))], measured, 0.4, label="measured")
    labels = [
        f"({row.group}) {row.name}{' – not measured' if ours is None else ''}"
        for row, ours in zip(rows, bleu, strict=True)
    ]
    axis.set_yticks(range(len(rows)), labels)
    axis.invert_yaxis()
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlabel("dev BLEU, difference from base")
    axis.legend()
