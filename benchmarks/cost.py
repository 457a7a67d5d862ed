"""What training the paper's models takes: hours, memory, disk. Prints the tables of docs/cost.md.

    python benchmarks/cost.py

An estimate, for which nothing runs: operations are counted (`t2t_repro.analysis.operations`), and
divided by the rate of a GPU's matrix units, of which a run uses a share that is assumed here.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import training_operations
from t2t_repro.analysis.parameter_count import parameter_count
from t2t_repro.data.slice_shapes import SliceShape
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.models.transformer import Transformer
from t2t_repro.training.guard_rails import activation_bytes

GB = 1e9


class Experiment(NamedTuple):
    """A gin file of the paper's, in numbers."""

    name: str
    shape: ModelShape
    steps: int
    published: str


class Machine(NamedTuple):
    """A GPU: peak rate of dense matrix products in operations a second, and the share assumed."""

    name: str
    precision: str
    peak: float
    shares: tuple[float, float]


BIG = LayerConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
EXPERIMENTS = (
    Experiment("base_ende", ModelShape(40_960, 6, LayerConfig()), 100_000, "12 h on 8 P100"),
    Experiment("big_ende", ModelShape(37_000, 6, BIG), 300_000, "3.5 days on 8 P100"),
)
UNITS = (("min", 60), ("h", 3_600), ("days", 86_400))
TOKENS, SLICES = 25_000, 8  # A batch, on either side; and what it is cut into.
SENTENCE = 25  # Tokens of a sentence; they decide attention's share alone.

# Of the SXM cards. The paper's own hours are 27 % (base) and 38 % (big) of eight P100s. The faster
# the matrix units, the more of a step goes into all that is no product.
MACHINES = (
    Machine("P100", "float32", 10.6e12, (0.25, 0.45)),
    Machine("V100", "float32", 15.7e12, (0.25, 0.45)),
    Machine("A100", "mixed_bfloat16", 312e12, (0.1, 0.3)),
    Machine("H100", "mixed_bfloat16", 989e12, (0.05, 0.2)),
)

# The largest shape of WMT14, as EXPERIMENTS.md has it.
LONGEST = SliceShape(24, 208, 224, TOKENS // SLICES, TOKENS // SLICES)

# float32 numbers a weight: itself, Adam's two moments; in memory its gradient, and the sum of those
# of the slices, too.
ON_DISK, IN_MEMORY = 3 * 4, 5 * 4
KEPT = 20 + 1 + 1  # Checkpoints.keep, the best, and the one that is being written.

# Target tokens a second, base in bfloat16: EXPERIMENTS.md, "No work on padding", own batches.
TWO_CORES = 1_339


def operations(experiment: Experiment) -> float:
    """Counts the matrix products of a whole run."""
    tokens = TOKENS * experiment.steps
    return training_operations(experiment.shape, tokens, tokens, SENTENCE)


def hours(experiment: Experiment, machine: Machine, count: int) -> tuple[float, float]:
    """Estimates the least and most hours of a run on so many GPUs, where all are busy."""
    low, high = machine.shares
    done = operations(experiment) / machine.peak / count / 3600
    return done / high, done / low


def time_table() -> Iterator[str]:
    """Writes hours on one GPU and on eight, as Markdown."""
    yield _row(
        ("experiment", "operations", "GPU", "precision", "share", "1 GPU", "8 GPUs", "the paper")
    )
    yield _row(["---"] * 8)
    for experiment in EXPERIMENTS:
        for machine in MACHINES:
            cells = [
                f"`{experiment.name}`",
                f"{operations(experiment):.1e}".replace("e+", "e"),
                machine.name,
                f"`{machine.precision}`",
                f"{machine.shares[0]:.0%} to {machine.shares[1]:.0%}",
                *(_range(*hours(experiment, machine, count)) for count in (1, SLICES)),
                experiment.published if machine.name == "P100" else "–",
            ]
            yield _row(cells)


def space_table() -> Iterator[str]:
    """Writes memory of a GPU and disk for checkpoints, as Markdown."""
    memory = ("weights, gradients, Adam", "activations", "together")
    yield _row(("experiment", "parameters", *memory, "checkpoint", "all checkpoints"))
    yield _row(["---"] * 7)
    for name, shape, *_ in EXPERIMENTS:
        count = parameter_count(shape)
        model = Transformer(shape.vocab_size, shape.num_layers, shape.config)
        held, activations = count * IN_MEMORY, activation_bytes(model, LONGEST)
        sizes = (held, activations, held + activations, count * ON_DISK, KEPT * count * ON_DISK)
        cells = [f"`{name}`", f"{count:,}", *(f"{size / GB:.1f} GB" for size in sizes)]
        yield _row(cells)


def cpu_line() -> str:
    """Says how long base takes on two cores, from the speed that was measured."""
    days = TOKENS * EXPERIMENTS[0].steps / TWO_CORES / 86_400
    return (
        f"Two CPU cores, `base_ende`, bfloat16, at {TWO_CORES:,} target tokens/s: {days:.0f} days."
    )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _range(low: float, high: float) -> str:
    """Hours in the unit that one would say them in."""
    unit, seconds = next((name, n) for name, n in UNITS if high * 3600 < 96 * n or name == "days")
    return f"{low * 3600 / seconds:.2g} to {high * 3600 / seconds:.2g} {unit}"


def tables() -> str:
    """Everything that docs/cost.md holds of this."""
    return "\n".join([*time_table(), "", *space_table(), "", cpu_line()])


if __name__ == "__main__":
    print(tables())
