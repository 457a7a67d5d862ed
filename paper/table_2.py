"""The paper's Table 2: BLEU and training cost, in floating-point operations.

The paper estimates the cost as time × GPUs × sustained rate of the GPU (its footnote 5). Here it is
also counted from the model's sizes and the tokens trained on, see `operations`: base's training is
1.0e18 operations, 30 % of the paper's estimate of 3.3e18.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runs import Run


class Result(NamedTuple):
    """One system on one language pair.

    Attributes:
        bleu: on newstest2014; None where none was reported.
        operations: published or estimated; None where unknown.
        counted: operations counted from the model's shape, where that is known.
    """

    bleu: float | None = None
    operations: float | None = None
    counted: float | None = None


class System(NamedTuple):
    """A row of Table 2.

    Attributes:
        name: as the paper calls it, or a run of one's own.
        ende: English→German.
        enfr: English→French.
        source: where the figures come from.
    """

    name: str
    ende: Result
    enfr: Result
    source: str


_MOE = "Shazeer et al. 2017, arXiv:1701.06538, tables 2 and 3"
_GNMT = "Wu et al. 2016, arXiv:1609.08144; hours in arXiv:1701.06538, tables 2 and 3"
_CONV = "Gehring et al. 2017, arXiv:1705.03122, sections 4.2 and 5.1"
_CONVS = "Gehring et al. 2017, arXiv:1705.03122, table 2: eight models"
_GNMTS = "Wu et al. 2016, arXiv:1609.08144; eight models: arXiv:1705.03122, table 2"
_DEEP = "Zhou et al. 2016, arXiv:1606.04199"
_PAPER = "Vaswani et al. 2017, sections 5.2 and 6.1"

TABLE_2 = (
    System("ByteNet", Result(23.75), Result(), "Kalchbrenner et al. 2017, arXiv:1610.10099"),
    System("Deep-Att + PosUnk", Result(), Result(39.2, 1.0e20), _DEEP),
    System("GNMT + RL", Result(24.6, 2.3e19), Result(39.92, 1.4e20), _GNMT),
    System("ConvS2S", Result(25.16, 9.6e18), Result(40.46, 1.5e20), _CONV),
    System("MoE", Result(26.03, 2.0e19), Result(40.56, 1.2e20), _MOE),
    System("Deep-Att + PosUnk Ensemble", Result(), Result(40.4, 8.0e20), _DEEP),
    System("GNMT + RL Ensemble", Result(26.30, 1.8e20), Result(41.16, 1.1e21), _GNMTS),
    System("ConvS2S Ensemble", Result(26.36, 7.7e19), Result(41.29, 1.2e21), _CONVS),
    System("Transformer (base model)", Result(27.3, 3.3e18), Result(38.1, 3.3e18), _PAPER),
    System("Transformer (big)", Result(28.4, 2.3e19), Result(41.8, 2.3e19), _PAPER),
)
"""BLEU and operations as the paper prints them.

It took ConvS2S's BLEU from an earlier version than the last, which has 40.51, and of the ensembles
26.43 and 41.44.
"""


OWN_RUNS = ("base_ende", "big_ende", "base_enfr", "big_enfr")
"""The experiments that belong in Table 2."""


def own_systems(runs: Mapping[str, Run | None]) -> list[System]:
    """Makes rows of runs: BLEU of the test split, and the operations counted so far."""
    systems = []
    for name in OWN_RUNS:
        if run := runs.get(name):
            bleu = run.evaluations["test"].paper_bleu if "test" in run.evaluations else None
            result = Result(bleu and round(bleu, 2), counted=run.operations)
            sides = (result, Result()) if name.endswith("ende") else (Result(), result)
            systems.append(System(f"{name}, {run.steps:,} steps", *sides, "this run"))
    return systems


def table_2(own: Sequence[System] = ()) -> str:
    """Writes Table 2 as Markdown, with runs of one's own below the paper's rows."""
    lines = [
        "| system | BLEU EN-DE | BLEU EN-FR | FLOPs EN-DE | FLOPs EN-FR | counted EN-DE "
        "| counted EN-FR | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for system in (*TABLE_2, *own):
        pairs = (system.ende, system.enfr)
        cells = [
            system.name,
            *(_cell(pair.bleu, "g") for pair in pairs),
            *(_cell(pair.operations, ".1e") for pair in pairs),
            *(_cell(pair.counted, ".1e") for pair in pairs),
            system.source,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form).replace("e+", "e")
