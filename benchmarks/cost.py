"""What training the paper's models takes: hours, memory, disk. Prints the tables of docs/wmt14.md.

    python benchmarks/cost.py

An estimate, for which nothing runs: operations are counted (`t2t_repro.analysis.operations`), and
divided by the rate of a GPU's matrix units, of which a run uses a share that is assumed here.
(`benchmarks/gpu_training.py` measures a share, `benchmarks/memory.py` asks XLA for memory.)
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t2t_repro.analysis.model_shape import ModelShape
from t2t_repro.analysis.operations import training_operations
from t2t_repro.analysis.parameter_count import parameter_count
from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.compiled_memory import compiled_bytes

GB = 1e9


class Experiment(NamedTuple):
    """A gin file of the paper's, in numbers."""

    name: str
    shape: ModelShape
    steps: int
    published: str


class Machine(NamedTuple):
    """GPUs: peak rate of dense matrix products in operations a second, and the share assumed."""

    name: str
    gpus: int
    precision: str
    peak: float
    shares: tuple[float, ...]


class Corpus(NamedTuple):
    """A language pair of TFDS's wmt14_translate.

    Attributes:
        name: of the pair.
        archives: bytes of what TFDS downloads; its own list (url_checksums) has them.
        pairs: of the train split, as the data set's card of wmt/wmt14 on Hugging Face has them.
        text: bytes of both sides of it, likewise.
    """

    name: str
    archives: tuple[int, ...]
    pairs: int
    text: int


BIG = LayerConfig(d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
EXPERIMENTS = (
    Experiment("base_ende", ModelShape(40_960, 6, LayerConfig()), 100_000, "12 h on 8 P100"),
    Experiment("big_ende", ModelShape(37_000, 6, BIG), 300_000, "3.5 days on 8 P100"),
)
UNITS = (("ms", 1e-3), ("s", 1), ("min", 60), ("h", 3_600), ("days", 86_400))
TOKENS, SLICES = 25_000, 8  # A batch, on either side; and what it is cut into.
SENTENCE = 25  # Tokens of a sentence; they decide attention's share alone.

# Of the SXM cards. The paper's own hours are 27 % (base) and 38 % (big) of eight P100s. The faster
# the matrix units, the more of a step goes into all that is no product.
PAPERS = Machine("8 × P100", 8, "float32", 10.6e12, (0.25, 0.45))
MACHINES = (
    PAPERS,
    Machine("8 × V100", 8, "float32", 15.7e12, (0.25, 0.45)),
    Machine("8 × A100", 8, "mixed_bfloat16", 312e12, (0.1, 0.3)),
    Machine("8 × H100", 8, "mixed_bfloat16", 989e12, (0.05, 0.2)),
    Machine("1 × H200", 1, "mixed_bfloat16", 989e12, (0.05, 0.2)),
)
# What NVIDIA measured with big in PyTorch, with 33,708 subwords: DeepLearningExamples, its README
# (pytorch-22.06-py3). Tokens are taken to be the target's, as fairseq counts them.
THEIRS = ModelShape(33_708, 6, BIG)
MEASURED = (
    (Machine("8 × V100", 8, "float32", 15.7e12, ()), 59_316),
    (Machine("8 × V100", 8, "mixed_float16", 125e12, ()), 214_656),
    (Machine("8 × A100", 8, "mixed_float16", 312e12, ()), 551_599),
    (Machine("1 × A100", 1, "mixed_float16", 312e12, ()), 82_059),
)
# Bytes a second between two GPUs, either way: PCIe 3, and somewhat less than NVLink's.
LINKS = (10e9, 100e9)

# The largest shape of WMT14, as EXPERIMENTS.md has it.
LONGEST = BatchShape(24, 208, 224, TOKENS // SLICES, TOKENS // SLICES)

# float32 numbers a weight: itself, Adam's two moments; in memory its gradient, and the sum of those
# of the slices, too.
ON_DISK, IN_MEMORY, A_GRADIENT = 3 * 4, 5 * 4, 4
KEPT = 20 + 1 + 1  # Checkpoints.keep, the best, and the one that is being written.

_BOTH = (657_632_379, 918_311_367, 80_418_416, 38_654_961)  # Europarl, Common Crawl, news, dev
CORPORA = (
    Corpus("en-de", _BOTH, 4_508_785, 1_358_406_800),
    Corpus("en-fr", (*_BOTH, 2_365_634_246, 2_595_102_720), 40_836_715, 14_752_554_924),
)
UNPACKED = 3  # Times as large as the archives, assumed: text that gzip has packed.
# Measured with the 68,256 pairs of EXPERIMENTS.md: TFRecords take so much a pair beside the text;
# and a token store is so large by the clean text.
RECORD, STORE_SHARE = 28, 7_364_760 / 16_478_123

# Target tokens a second, base in bfloat16: EXPERIMENTS.md, "No work on padding", own batches.
TWO_CORES = 1_339


def operations(experiment: Experiment) -> float:
    """Counts the matrix products of a whole run."""
    tokens = TOKENS * experiment.steps
    return training_operations(experiment.shape, tokens, tokens, SENTENCE)


def seconds(experiment: Experiment, machine: Machine) -> tuple[float, float]:
    """Estimates the least and most seconds of a run, where all GPUs are busy."""
    low, high = machine.shares
    done = operations(experiment) / machine.peak / machine.gpus
    return done / high, done / low


def time_table() -> Iterator[str]:
    """Writes what a step and a run take on each machine, as Markdown."""
    yield _row(
        ("experiment", "operations", "GPUs", "precision", "share", "a step", "all steps", "paper")
    )
    yield _row(["---"] * 8)
    for experiment in EXPERIMENTS:
        for machine in MACHINES:
            least, most = seconds(experiment, machine)
            cells = [
                f"`{experiment.name}`",
                f"{operations(experiment):.1e}".replace("e+", "e"),
                machine.name,
                f"`{machine.precision}`",
                f"{machine.shares[0]:.0%} to {machine.shares[1]:.0%}",
                _range(least / experiment.steps, most / experiment.steps),
                _range(least, most),
                experiment.published if machine == PAPERS else "–",
            ]
            yield _row(cells)


def measured_table() -> Iterator[str]:
    """Writes the share of the peak that others have reached, as Markdown."""
    yield _row(("GPUs", "precision", "target tokens/s", "share"))
    yield _row(["---"] * 4)
    for machine, tokens in MEASURED:
        rate = training_operations(THEIRS, tokens, tokens, SENTENCE)
        share = rate / machine.peak / machine.gpus
        yield _row((machine.name, f"`{machine.precision}`", f"{tokens:,}", f"{share:.0%}"))


def link_table() -> Iterator[str]:
    """Writes what it takes to sum the gradients of eight GPUs, as Markdown."""
    rates = [f"at {rate / GB:.0f} GB/s" for rate in LINKS]
    yield _row(("experiment", "gradients", "each of 8 GPUs sends", *rates))
    yield _row(["---"] * 5)
    for experiment in EXPERIMENTS:
        gradients = parameter_count(experiment.shape) * A_GRADIENT
        sent = gradients * 2 * 7 / 8  # Around a ring: each gives on seven eighths, twice.
        took = [f"{_two_figures(sent / rate * 1000)} ms" for rate in LINKS]
        yield _row((f"`{experiment.name}`", *map(_gigabytes, (gradients, sent)), *took))


def space_table() -> Iterator[str]:
    """Writes memory of a GPU and disk for checkpoints, as Markdown."""
    memory = ("weights, gradients, Adam", "activations", "together")
    yield _row(("experiment", "parameters", *memory, "checkpoint", "all checkpoints"))
    yield _row(["---"] * 7)
    for name, shape, *_ in EXPERIMENTS:
        count = parameter_count(shape)
        model = Transformer(
            shape.vocab_size, shape.num_layers, shape.config, dtype="mixed_bfloat16"
        )
        model.build()
        held, activations = count * IN_MEMORY, compiled_bytes(model, LONGEST, on_gpu=True)
        sizes = (held, activations, held + activations, count * ON_DISK, KEPT * count * ON_DISK)
        yield _row((f"`{name}`", f"{count:,}", *map(_gigabytes, sizes)))


def data_table() -> Iterator[str]:
    """Writes the disk that data take, as Markdown."""
    kinds = ("archives", "unpacked", "TFDS's records", "clean text", "token store", "all at once")
    yield _row(("data", "pairs", *kinds))
    yield _row(["---"] * 8)
    for name, archives, pairs, text in CORPORA:
        downloaded = sum(archives)
        records = text + RECORD * pairs
        sizes = [downloaded, downloaded * UNPACKED, records, text, text * STORE_SHARE]
        yield _row((name, f"{pairs:,}", *map(_gigabytes, (*sizes, sum(sizes)))))


def cpu_line() -> str:
    """Says how long base takes on two cores, from the speed that was measured."""
    days = TOKENS * EXPERIMENTS[0].steps / TWO_CORES / 86_400
    return (
        f"Two CPU cores, `base_ende`, bfloat16, at {TWO_CORES:,} target tokens/s: {days:.0f} days."
    )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _gigabytes(size: float) -> str:
    return f"{size / GB:.1f} GB"


def _range(low: float, high: float) -> str:
    """Seconds in the unit that one would say them in."""
    unit, one = next((name, n) for name, n in UNITS if high < 96 * n or name == "days" or high < 1)
    return f"{_two_figures(low / one)} to {_two_figures(high / one)} {unit}"


def _two_figures(number: float) -> str:
    return f"{float(f'{number:.2g}'):g}"


def tables() -> str:
    """Everything that the pages hold of this; the last line is that of docs/cost.md."""
    written = (
        time_table(),
        measured_table(),
        link_table(),
        space_table(),
        data_table(),
        [cpu_line()],
    )
    return "\n\n".join("\n".join(lines) for lines in written)


if __name__ == "__main__":
    print(tables())
