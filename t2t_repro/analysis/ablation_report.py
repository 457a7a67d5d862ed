"""The paper's Table 3 with what was measured beside what was published."""

from collections.abc import Iterable, Mapping

from t2t_repro.analysis import findings
from t2t_repro.analysis.run_record import Run
from t2t_repro.analysis.table_3 import TABLE_3, Row
from t2t_repro.analysis.table_3_runs import BLEU, PERPLEXITY, Measure, Runs, sample


def as_markdown(runs: Runs) -> str:
    """Writes the table, and which of the paper's findings the runs show."""
    lines = [
        "Of each pair of columns the first is the paper's. Perplexity is per subword and BLEU "
        "tokenised, both on the dev set; of several runs (seeds) mean ± sample standard deviation.",
        "",
        "| | row | steps | measured | perplexity | measured | BLEU | measured | parameters ×10⁶ "
        "| measured | training FLOPs | runs | checkpoint |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_cells(row, runs.get(row.name, {})))} |" for row in TABLE_3]
    return "\n".join([*lines, "", *findings.as_markdown(runs)]) + "\n"


def _cells(row: Row, runs: Mapping[str, Run]) -> list[str]:
    parameters = (run.parameters / 1e6 for run in runs.values())
    operations = (f"{run.operations:.1e}".replace("e+", "e") for run in runs.values())
    return [
        *(row.group, row.change),
        *(f"{row.steps:,}", _each(f"{run.steps:,}" for run in runs.values())),
        *(f"{row.perplexity:.2f}", _mean(runs, PERPLEXITY)),
        *(f"{row.bleu}", _mean(runs, BLEU)),
        *(f"{row.millions}", _each(f"{millions:.1f}" for millions in parameters)),
        _each(operations),
        str(len(runs)),
        _each(run.dev.checkpoint for run in runs.values() if run.dev),
    ]


def _mean(runs: Mapping[str, Run], measure: Measure) -> str:
    return str(sample(runs, measure) or "–")


def _each(texts: Iterable[str]) -> str:
    """What most often is the same of all runs."""
    return ", ".join(dict.fromkeys(texts)) or "–"
