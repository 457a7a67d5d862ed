"""How training would scale to 8 and 64 GPUs: a calculation, with the tables of docs/eight_gpus.md.

    python benchmarks/eight_gpus.py [--out=docs/eight_gpus.png]

Nothing runs, and nothing of it was measured on a GPU. A step is the time of one GPU, and the sum of
the gradients over a ring: bytes counted, rates of links from public data sheets. One GPU's tokens a
second are the project's aim until they are measured: --base and --big take what was.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cost import EXPERIMENTS, TOKENS
from t2t_repro.analysis.parameter_count import parameter_count

GB = 1e9
FLOAT32, BFLOAT16 = 4, 2
GPUS = (1, 2, 4, 8, 16, 32, 64)
A_MACHINE = 8
"""GPUs of a machine; between machines there is the network."""


class Link(NamedTuple):
    """What joins GPUs.

    Attributes:
        name: of it.
        rate: bytes a second that a GPU sends, by the data sheet.
        delay: seconds of one step around the ring, assumed.
    """

    name: str
    rate: float
    delay: float


# H100 SXM: 900 GB/s both ways together; 16 lanes of PCIe 5: 128. A 400 Gbit/s card a GPU.
NVLINK = Link("NVLink 4", 450 * GB, 3e-6)
PCIE = Link("PCIe 5", 64 * GB, 5e-6)
NETWORK = Link("400 Gbit/s a GPU", 50 * GB, 10e-6)
# Of a link's rate, assumed; and H100's memory, which the sum's one tensor is copied in and out of.
SUSTAINED = 0.8
MEMORY = 3_350 * GB
# Of one kernel, assumed: nothing of a step is faster than starting it.
LAUNCH = 4e-6
# replicas.py, on 8 logical devices of a CPU (EXPERIMENTS.md): how much longer an update took.
STRATEGY = 1 / 1.54 - 1 / 1.56


class Model(NamedTuple):
    """A model on one H100 or H200.

    Attributes:
        name: of the gin file.
        parameters: of it.
        rate: target tokens a second, where a step has 25,000.
        kernels: of a step's program.
    """

    name: str
    parameters: int
    rate: float
    kernels: int

    def alone(self, tokens: float) -> float:
        """Seconds of a GPU's own part of a step: as many as its tokens or its kernels take."""
        return max(tokens / self.rate, self.kernels * LAUNCH)

    def gradients(self, width: int = FLOAT32) -> int:
        """Bytes of a gradient of all weights."""
        return self.parameters * width


# Aims in tokens a second. Kernels as XLA compiled the step for an H100: benchmarks/README.md.
AIMS = {"base_ende": (700_000, 886), "big_ende": (180_000, 888)}
FEWER = 600
"""Kernels of a step if a third of them could be saved."""


def models(rates: Mapping[str, float | None] | None = None) -> list[Model]:
    """Base and big, with tokens a second that were measured, or the aims."""
    found = []
    for name, shape, *_ in EXPERIMENTS:
        aim, kernels = AIMS[name]
        rate = (rates or {}).get(name) or aim
        found.append(Model(name, parameter_count(shape), rate, kernels))
    return found


def ring(size: float, gpus: int, link: Link) -> float:
    """Seconds of an all-reduce around a ring.

    Each GPU sends the gpus-th part of it to the next one, gpus - 1 times while sums are made, and
    as often again while they are handed round.
    """
    steps = 2 * (gpus - 1)
    return steps * (size / gpus / (SUSTAINED * link.rate) + link.delay)


def summed(size: float, gpus: int, within: Link = NVLINK) -> float:
    """Seconds of the sum of the gradients.

    Of several machines each sums its own first, an eighth on every GPU; then every eighth goes
    around a ring of all machines, over a network card of its own; then it is handed round within.
    """
    if gpus == 1:
        return 0.0
    copies = 4 * size / MEMORY  # into one tensor and out of it: read and written twice
    machines = max(1, gpus // A_MACHINE)
    among = ring(size / A_MACHINE, machines, NETWORK) if machines > 1 else 0.0
    return copies + ring(size, min(gpus, A_MACHINE), within) + among


def step(model: Model, gpus: int, tokens: float, overlapped: bool = False) -> float:
    """Seconds of a step.

    Args:
        model: on each GPU.
        gpus: as many.
        tokens: target tokens of each.
        overlapped: whether gradients are summed while others are still computed. They are not: XLA
            returns all of them when its program ends.
    """
    alone, together = model.alone(tokens), summed(model.gradients(), gpus)
    return max(alone, together) if overlapped else alone + together


def speed(model: Model, gpus: int, tokens: float, overlapped: bool = False) -> float:
    """Target tokens a second of all GPUs."""
    return gpus * tokens / step(model, gpus, tokens, overlapped)


def sum_table(of: list[Model]) -> Iterator[str]:
    """Writes what the sum of the gradients takes, as Markdown."""
    yield _row(("model", "gradients", "sent by each of 8", *_SUMS))
    yield _row(["---", *["---:"] * 6])
    for model in of:
        for width, name in ((FLOAT32, "float32"), (BFLOAT16, "bfloat16")):
            size = model.gradients(width)
            took = (summed(size, 8), summed(size, 8, PCIE), summed(size, 16), summed(size, 64))
            sent = f"{size * 2 * 7 / 8 / GB:.2f} GB"
            cells = (f"`{model.name}`", f"{size / GB:.2f} GB, {name}", sent)
            yield _row((*cells, *(f"{1e3 * seconds:.2f}" for seconds in took)))


_SUMS = (f"8, {NVLINK.name}, ms", f"8, {PCIE.name}, ms", "16, ms", "64, ms")


def scaling_table(of: list[Model]) -> Iterator[str]:
    """Writes steps and tokens a second of the paper's batch, and of one as large a GPU."""
    columns = ("own part, ms", "sum, ms", "step, ms", "tokens/s", "of n × one", "with overlap")
    yield _row(("model", "batch", "GPUs", *columns))
    yield _row(["---", "---", *["---:"] * 7])
    for model in of:
        for name, per_gpu in (("25,000", False), ("25,000 a GPU", True)):
            for gpus in (1, 8, 64):
                tokens = TOKENS if per_gpu else TOKENS / gpus
                own, together = model.alone(tokens), summed(model.gradients(), gpus)
                times = (f"{1e3 * seconds:.1f}" for seconds in (own, together, own + together))
                rate = speed(model, gpus, tokens)
                ideal = gpus * speed(model, 1, TOKENS)
                best = speed(model, gpus, tokens, overlapped=True)
                cells = (f"`{model.name}`", name, str(gpus), *times)
                yield _row((*cells, f"{rate:,.0f}", f"{rate / ideal:.0%}", f"{best / ideal:.0%}"))


def held_table(of: list[Model]) -> Iterator[str]:
    """Writes what else would change a step of eight GPUs with the paper's batch."""
    columns = (
        "as it stands",
        f"{FEWER} kernels",
        "sum in bfloat16",
        "PCIe 5",
        "8 ms more on the host",
    )
    yield _row(("model, 8 GPUs, tokens/s", *columns))
    yield _row(["---", *["---:"] * len(columns)])
    tokens = TOKENS / 8
    for model in of:
        size = model.gradients()
        alone = model.alone(tokens)
        steps = (
            step(model, 8, tokens),
            step(model._replace(kernels=FEWER), 8, tokens),
            alone + summed(model.gradients(BFLOAT16), 8),
            alone + summed(size, 8, PCIE),
            step(model, 8, tokens) + STRATEGY,
        )
        yield _row((f"`{model.name}`", *(f"{TOKENS / seconds:,.0f}" for seconds in steps)))


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def tables(of: list[Model] | None = None) -> str:
    """All that the page holds of this."""
    of = of or models()
    return "\n\n".join("\n".join(table(of)) for table in (sum_table, scaling_table, held_table))


def plot(of: list[Model], path: Path) -> None:
    """Draws tokens a second against GPUs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(of), figsize=(5.2 * len(of), 4.2), squeeze=False)
    for model, axis in zip(of, axes[0], strict=True):
        fewer = model._replace(kernels=FEWER)
        lines = {
            "as many times one GPU": ("--", [n * speed(model, 1, TOKENS) for n in GPUS]),
            "25,000 tokens a GPU": ("o-", [speed(model, n, TOKENS) for n in GPUS]),
            f"25,000 in all, {FEWER} kernels": ("s-", [speed(fewer, n, TOKENS / n) for n in GPUS]),
            "25,000 in all": ("^-", [speed(model, n, TOKENS / n) for n in GPUS]),
        }
        for label, (style, values) in lines.items():
            axis.plot(GPUS, values, style, label=label)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(GPUS, [str(n) for n in GPUS])
        axis.set_xlabel("GPUs (machines of eight)")
        axis.set_ylabel("target tokens a second")
        axis.set_title(f"{model.name}: calculated, not measured")
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Prints the tables, and draws the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=float, help="target tokens/s of one GPU, where measured")
    parser.add_argument("--big", type=float, help="likewise")
    parser.add_argument("--out", type=Path, default=Path("docs/eight_gpus.png"), help="the plot")
    options = parser.parse_args()
    of = models({"base_ende": options.base, "big_ende": options.big})
    print(tables(of))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    plot(of, options.out)


if __name__ == "__main__":
    main()
