"""The paper's findings from Table 3 (section 6.2), checked against runs over several seeds.

Three runs say little about the spread of their row, all rows together say enough. So the variances
within the rows are pooled,

    s² = Σ_rows Σ_seeds (value − mean of its row)² / df,    df = Σ_rows (n − 1),

and a difference of two means has the 95 % interval ± t · s · sqrt(1 / n_1 + 1 / n_2). Here t is the
97.5 % point of Student's distribution with df degrees of freedom (Fisher's least significant
difference).
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runs import Sample
from table_3 import BASE, BLEU, LOG_PERPLEXITY, TABLE_3, Measure, Runs, samples


def t_quantile(degrees: int) -> float:
    """Returns the 97.5 % point of Student's distribution, by bisection of its tails."""
    import tensorflow as tf

    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        x = degrees / (degrees + middle**2)
        tails = float(tf.math.betainc(tf.constant(degrees / 2, tf.float64), 0.5, x))
        low, high = (middle, high) if tails > 0.05 else (low, middle)
    return middle


class Spread(NamedTuple):
    """The spread within rows.

    Attributes:
        deviation: s, the pooled standard deviation; None if no row has two runs.
        degrees: of freedom, df.
        largest: the standard deviation of the row that varies most, or None.
    """

    deviation: float | None
    degrees: int
    largest: float | None

    @classmethod
    def pooled(cls, samples: Iterable[Sample]) -> "Spread":
        """Pools the variances within samples."""
        rows = [(one.deviation, len(one.values) - 1) for one in samples]
        varying = [(deviation, degrees) for deviation, degrees in rows if deviation is not None]
        df = sum(degrees for _, degrees in varying)
        if not df:
            return cls(None, 0, None)
        squares = sum(degrees * deviation**2 for deviation, degrees in varying)
        return cls(math.sqrt(squares / df), df, max(deviation for deviation, _ in varying))

    def difference(self, of: Sample, other: Sample) -> "Difference":
        """Returns the mean of one sample minus the mean of another, with its interval."""
        value = of.mean - other.mean
        if self.deviation is None:
            return Difference(value, None)
        error = self.deviation * math.sqrt(1 / len(of.values) + 1 / len(other.values))
        return Difference(value, t_quantile(self.degrees) * error)


class Difference(NamedTuple):
    """A difference of two means.

    Attributes:
        value: the difference.
        half_width: of its 95 % interval; None if the spread is not known.
    """

    value: float
    half_width: float | None

    def show(self, digits: int) -> str:
        """Writes the difference ± its half width."""
        spread = "" if self.half_width is None else f" ± {self.half_width:.{digits}f}"
        return f"{self.value:+.{digits}f}{spread}"

    def verdict(self, published: float, tolerance: float | None = None) -> str:
        """Returns whether it agrees with what was published.

        Args:
            published: the published difference; its sign is the finding.
            tolerance: if the finding is that two rows hardly differ, by how much they may.

        Returns:
            "agrees" if the whole interval does (on the published side of zero, or within the
            tolerance), "disagrees" if none of it does, otherwise "cannot be told apart"; "spread
            unknown" without an interval.
        """
        if self.half_width is None:
            return "spread unknown"
        if tolerance is None:
            towards = math.copysign(1, published) * self.value
            agrees, disagrees = towards > self.half_width, towards < -self.half_width
        else:
            agrees = abs(self.value) + self.half_width <= tolerance
            disagrees = abs(self.value) - self.half_width > tolerance
        return "agrees" if agrees else "disagrees" if disagrees else "cannot be told apart"


class Finding(NamedTuple):
    """A finding of the paper, as pairs of rows.

    Attributes:
        text: the paper's words, shortened.
        pairs: (a row, the row it is compared with), by name. The sign of the published difference
            is the finding.
        tolerances: if the finding is that they hardly differ, by how much they may, in BLEU and
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
    """Writes a line for each pair of rows: the differences, and whether they agree."""
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
    """Checks a pair of rows against a finding by one measure.

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
    """Yields the rule of the verdicts, and the spreads that it used."""
    spreads = {one.name: Spread.pooled(samples(runs, one).values()) for one in MEASURES}
    if any(spread.deviation is None for spread in spreads.values()):
        yield "No row has two runs, so the spread over seeds is not known."
        return
    yield (
        "±: 95 % interval over seeds (variance pooled over all rows). *agrees*: the whole interval "
        "is on the paper's side of zero; *disagrees*: on the other side. Learned positions agree "
        "if the whole interval is within 0.5 BLEU, or 0.05 in ln perplexity. One of twenty true "
        "zeros is taken for a difference by chance."
    )
    yield ""
    for name, spread in spreads.items():
        yield (
            f"- {name}: standard deviation over seeds {spread.deviation:.3f} "
            f"({spread.degrees} degrees of freedom), largest of a row {spread.largest:.3f}"
        )
