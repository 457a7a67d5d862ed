"""The paper's Table 1: what a layer costs that maps n vectors of width d to n vectors of width d.

The formulas are orders of growth: constants and lower terms are left out, as in the table. What
real layers take is measured by layer_complexity.py.
"""

import math
from typing import NamedTuple


class LayerComplexity(NamedTuple):
    """A row of Table 1 with numbers put in.

    Attributes:
        operations: complexity per layer.
        sequential: operations that must wait for one another.
        path_length: the most steps between any two positions, in layers or in time steps.
    """

    operations: float
    sequential: float
    path_length: float


def self_attention(n: int, d: int) -> LayerComplexity:
    """O(n² · d) operations, O(1) sequential, path O(1): every position sees every other."""
    return LayerComplexity(n**2 * d, 1, 1)


def restricted_self_attention(n: int, d: int, r: int) -> LayerComplexity:
    """O(r · n · d) operations, O(1) sequential, path O(n / r): r positions are seen.

    At most n are: with r ≥ n it is self-attention.
    """
    r = min(r, n)
    return LayerComplexity(r * n * d, 1, n / r)


def recurrent(n: int, d: int) -> LayerComplexity:
    """O(n · d²) operations, O(n) sequential, path O(n)."""
    return LayerComplexity(n * d**2, n, n)


def convolutional(n: int, d: int, k: int) -> LayerComplexity:
    """O(k · n · d²) operations, O(1) sequential, path O(log_k n) with dilated kernels.

    Contiguous kernels need O(n / k) layers to join all positions (section 4).

    Raises:
        ValueError: for a kernel of one position, which never sees another.
    """
    _check_kernel(k)
    return LayerComplexity(k * n * d**2, 1, max(1.0, math.log(n, k)))


def separable_convolutional(n: int, d: int, k: int) -> LayerComplexity:
    """O(k · n · d + n · d²) operations (section 4), otherwise as `convolutional`.

    Raises:
        ValueError: for a kernel of one position.
    """
    return convolutional(n, d, k)._replace(operations=k * n * d + n * d**2)


def as_markdown(n: int, d: int, k: int, r: int) -> str:
    """Writes Table 1 as Markdown: the formulas, and their values for n, d, k and r."""
    rows = [
        ("Self-Attention", "n² · d", "1", "1", self_attention(n, d)),
        ("Recurrent", "n · d²", "n", "n", recurrent(n, d)),
        ("Convolutional", "k · n · d²", "1", "log_k(n)", convolutional(n, d, k)),
        ("Convolutional, separable", "k · n · d + n · d²", "1", "log_k(n)",
         separable_convolutional(n, d, k)),
        ("Self-Attention (restricted)", "r · n · d", "1", "n / r",
         restricted_self_attention(n, d, r)),
    ]  # fmt: skip
    lines = [
        "| layer type | complexity per layer | sequential operations | maximum path length "
        f"| n = {n}, d = {d}, k = {k}, r = {r} |",
        "|---|---|---|---|---|",
    ]
    for name, operations, sequential, path, cost in rows:
        value = f"{cost.operations:.1e}, {cost.sequential:g}, {cost.path_length:.3g}"
        lines.append(f"| {name} | O({operations}) | O({sequential}) | O({path}) | {value} |")
    return "\n".join(lines)


def _check_kernel(k: int) -> None:
    if k < 2:
        raise ValueError(f"k is {k}, expected a kernel of at least 2 positions.")
