"""Whether means over a few seeds differ, judged by the spread of all rows together.

Three runs tell little of the spread of their row: in one row of five their standard deviation is
less than half the true one. All rows of a table together tell it well, if seeds matter about as
much in each. So the variances within the rows are pooled,

    s² = Σ_rows Σ_seeds (value − mean of its row)² / df,    df = Σ_rows (n − 1),

and a difference of two means has the 95 % interval ± t · s · sqrt(1 / n_1 + 1 / n_2), t being the
97.5 % point of Student's distribution with df degrees of freedom (Fisher's least significant
difference). Of twenty pairs that do not differ, one is taken for different by chance. A row that
varies more than the others, as one in which training failed with one seed, makes all intervals
wider, and its own not wide enough.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from t2t_repro.analysis.seeds import Sample

_LEVEL = 0.05


class Spread(NamedTuple):
    """The spread within rows.

    Attributes:
        deviation: s, the pooled standard deviation; None where no row has two runs.
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
        """Returns the mean of one sample less the mean of another, with its interval."""
        found = of.mean - other.mean
        if self.deviation is None:
            return Difference(found, None)
        error = self.deviation * math.sqrt(1 / len(of.values) + 1 / len(other.values))
        return Difference(found, t_quantile(self.degrees) * error)


class Difference(NamedTuple):
    """A difference of two means.

    Attributes:
        value: the difference.
        half_width: of its 95 % interval; None where the spread is not known.
    """

    value: float
    half_width: float | None

    def show(self, digits: int) -> str:
        """Writes the difference ± its half width, with so many digits after the point."""
        spread = "" if self.half_width is None else f" ± {self.half_width:.{digits}f}"
        return f"{self.value:+.{digits}f}{spread}"

    def verdict(self, published: float, tolerance: float | None = None) -> str:
        """Says whether it shows what was published.

        Args:
            published: the published difference, whose sign is what is to be shown.
            tolerance: where the finding is that two rows hardly differ, by how much they may.

        Returns:
            "agrees" where the whole interval does (lies on the published side of zero, or within
            the tolerance), "disagrees" where all of it does not, otherwise "cannot be told apart";
            "spread unknown" where there is no interval.
        """
        if self.half_width is None:
            return "spread unknown"
        if tolerance is None:
            nearest, farthest = (
                math.copysign(1, published) * self.value + way * self.half_width for way in (-1, 1)
            )
            agrees, disagrees = nearest > 0, farthest < 0
        else:
            agrees = abs(self.value) + self.half_width <= tolerance
            disagrees = abs(self.value) - self.half_width > tolerance
        return "agrees" if agrees else "disagrees" if disagrees else "cannot be told apart"


def t_quantile(degrees: int) -> float:
    """Returns the 97.5 % point of Student's distribution, by bisection of its tail."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        x = degrees / (degrees + middle**2)
        tails = float(tf.math.betainc(tf.constant(degrees / 2, tf.float64), 0.5, x))
        low, high = (middle, high) if tails > _LEVEL else (low, middle)
    return middle
