"""Estimates hours and disk of training the paper's models: `python paper/cost.py`.

Nothing runs: the operations are counted (`operations`) and divided by a share, which is assumed, of
the peak rate of a GPU. Prints the tables of docs/gpus.md.
"""

from typing import Any, NamedTuple

from operations import parameter_count, training_operations
from t2t_repro.model.settings import LayerConfig

TOKENS = 25_000  # of a batch, on either side
SENTENCE = 25  # tokens; decides attention's share alone
KEPT = 22  # checkpoints: the last 20, the best, the one that is being written
A_WEIGHT = 3 * 4  # bytes in a checkpoint: the weight and Adam's two moments, float32


class Experiment(NamedTuple):
    """One of the paper's models and its training."""

    name: str
    vocab_size: int
    config: LayerConfig
    steps: int

    @property
    def sizes(self) -> dict[str, Any]:
        """Returns what its model.json would hold."""
        return {
            "vocab_size": self.vocab_size,
            "num_layers": 6,
            "config": self.config.to_dict(),
            "positional_encoding": "interleaved",
            "max_length": None,
            "neighbourhood": None,
        }

    @property
    def operations(self) -> float:
        """Counts the operations of the whole training."""
        tokens = TOKENS * self.steps
        return training_operations(self.sizes, tokens, tokens, SENTENCE)


class Machine(NamedTuple):
    """GPUs, their peak rate in operations a second, and the assumed share of it."""

    name: str
    gpus: int
    peak: float
    shares: tuple[float, float]


BIG = LayerConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
EXPERIMENTS = (
    Experiment("base_ende", 40_960, LayerConfig(), 100_000),
    Experiment("big_ende", 37_000, BIG, 300_000),
)
# Dense products of the SXM cards: float32 on P100 and V100, bfloat16 on the others. In the paper
# base took 27 % and big 38 % of eight P100s.
MACHINES = (
    Machine("8 × P100", 8, 10.6e12, (0.25, 0.45)),
    Machine("8 × V100", 8, 15.7e12, (0.25, 0.45)),
    Machine("8 × A100", 8, 312e12, (0.1, 0.3)),
    Machine("8 × H100", 8, 989e12, (0.05, 0.2)),
    Machine("1 × H100", 1, 989e12, (0.05, 0.2)),
)


def hours(experiment: Experiment, machine: Machine) -> tuple[float, float]:
    """Estimates the fewest and the most hours of a training."""
    low, high = machine.shares
    alone = experiment.operations / machine.peak / machine.gpus / 3600
    return alone / high, alone / low


def tables() -> str:
    """Writes hours, and disk for checkpoints, as Markdown."""
    lines = [
        "| GPUs | share of the peak | " + " | ".join(f"`{e.name}`" for e in EXPERIMENTS) + " |"
    ]
    lines.append("|---" * (2 + len(EXPERIMENTS)) + "|")
    for machine in MACHINES:
        cells = [
            f"{low:.2g} to {high:.2g} h" for low, high in (hours(e, machine) for e in EXPERIMENTS)
        ]
        low, high = machine.shares
        lines.append(f"| {machine.name} | {low:.0%} to {high:.0%} | {' | '.join(cells)} |")
    lines += ["", "| experiment | operations | parameters | a checkpoint | all checkpoints |"]
    lines.append("|---|---|---|---|---|")
    for experiment in EXPERIMENTS:
        count = parameter_count(experiment.sizes)
        size = count * A_WEIGHT / 1e9
        operations = f"{experiment.operations:.1e}".replace("e+", "e")
        lines.append(
            f"| `{experiment.name}` | {operations} | {count:,} | {size:.1f} GB | "
            f"{KEPT * size:.0f} GB |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables())
