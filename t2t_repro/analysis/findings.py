"""What the paper concludes from its Table 3 (section 6.2), held against runs."""

from collections.abc import Iterator
from typing import NamedTuple

from t2t_repro.analysis.differences import Difference, Spread
from t2t_repro.analysis.table_3 import BASE, TABLE_3
from t2t_repro.analysis.table_3_runs import BLEU, LOG_PERPLEXITY, Measure, Runs, samples


class Finding(NamedTuple):
    """Something the paper concludes, as pairs of rows.

    Attributes:
        text: the paper's words, shortened.
        pairs: (a row, the row that it is compared with), by name. The published difference
            of each has the sign that the finding says.
        tolerances: where the finding is that they hardly differ, by how much they may, in BLEU and
            in ln perplexity.
    """

    text: str
    pairs: tuple[tuple[str, str], ...]
    tolerances: tuple[float, float] | None = None


FINDINGS = (
    Finding("A: a single head is worse than the best setting", (("a_1_head", BASE),)),
    Finding("A: too many heads are worse", (("a_32_heads", BASE),)),
    Finding(
        "B: a smaller d_k is worse",
        (("b_d_k_16", "b_d_k_32"), ("b_d_k_32", BASE), ("b_d_k_16", BASE)),
    ),
    Finding(
        "C: bigger models are better",
        (
            ("c_2_layers", "c_4_layers"),
            ("c_4_layers", BASE),
            ("c_d_model_256", BASE),
            (BASE, "c_d_model_1024"),
            ("c_d_ff_1024", BASE),
            (BASE, "c_d_ff_4096"),
            (BASE, "big_ende"),
        ),
    ),
    Finding("D: dropout helps", (("d_dropout_0_0", BASE),)),
    Finding(
        "D: label smoothing costs perplexity and helps BLEU", (("d_label_smoothing_0_0", BASE),)
    ),
    Finding(
        "E: learned positions are nearly as good as sinusoids",
        (("e_learned_positions", BASE),),
        tolerances=(0.5, 0.05),
    ),
)
MEASURES = (BLEU, LOG_PERPLEXITY)
_ROWS = {row.name: row for row in TABLE_3}


def as_markdown(runs: Runs) -> list[str]:
    """Writes a line for each pair of rows: the differences, and what they say of the finding."""
    columns = [f"{one.name}: paper | here | verdict" for one in MEASURES]
    lines = [f"| finding of the paper | rows | {' | '.join(columns)} |", f"|{'---|' * 8}"]
    for finding in FINDINGS:
        for pair in finding.pairs:
            judged = [cell for measure in MEASURES for cell in judge(finding, pair, measure, runs)]
            lines.append(f"| {finding.text} | {' − '.join(pair)} | {' | '.join(judged)} |")
    return [*lines, "", *_rule(runs)]


def judge(
    finding: Finding, pair: tuple[str, str], measure: Measure, runs: Runs
) -> tuple[str, str, str]:
    """Holds a pair of rows against a finding by one measure.

    Returns:
        the published difference, ours with its 95 % interval, and the verdict; see
        `Difference.verdict`.
    """
    of, other = pair
    published = measure.published(_ROWS[of]) - measure.published(_ROWS[other])
    found = samples(runs, measure)
    in_the_paper = Difference(published, None).show(measure.digits)
    if of not in found or other not in found:
        return in_the_paper, "–", "not measured"
    difference = Spread.pooled(found.values()).difference(found[of], found[other])
    tolerances = dict(zip(MEASURES, finding.tolerances or (), strict=False))
    verdict = difference.verdict(published, tolerances.get(measure))
    return in_the_paper, difference.show(measure.digits), verdict


def _rule(runs: Runs) -> Iterator[str]:
    """By which rule it is judged, in words, with the spreads that it takes."""
    spreads = {one.name: Spread.pooled(samples(runs, one).values()) for one in MEASURES}
    if any(spread.deviation is None for spread in spreads.values()):
        yield (
            "No row has two runs: how far another seed would lie from these is not known, and "
            "nothing can be told of the differences."
        )
        return
    yield (
        "±: 95 % interval of a difference of means, Student's t with the variance within rows "
        "pooled over all rows of several runs: what another choice of seeds would change, not "
        "another dev set. *agrees*: the whole interval is on the paper's side of zero, "
        "*disagrees*: on the other, *cannot be told apart*: neither. Learned positions agree where "
        "the whole interval is within 0.5 BLEU, or 0.05 in ln perplexity, and disagree where all "
        "of it is outside. "
        "Of twenty differences that are none, one is taken for one by chance."
    )
    yield ""
    for name, spread in spreads.items():
        yield (
            f"- {name}: standard deviation over seeds {spread.deviation:.3f} "
            f"({spread.degrees} degrees of freedom), {spread.largest:.3f} in the row that varies "
            "most"
        )
