"""What is measured on a GPU day, in order: every part has commands and a time limit.

Needs nothing but Python. Programs (`exported_in_jax.py`) come before TensorFlow, which has to be
put together first; measurements come before trainings.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import table_3
from table_3 import Bindings

JAX, TENSORFLOW = "jax", "tensorflow"
RESULTS = "--output={results}"
"""A command with it appends its rows by itself; of others, JSON lines on standard output are."""

NEWS = ("train", "dev")
LOOPS: tuple[tuple[str, Bindings], ...] = (
    ("multi30k", ()),
    ("wmt14", ()),  # the paper's eight slices, one after the other
    ("wmt14", ("TrainStep.slices = 1",)),
)
DATA = ("multi30k", "wmt14", "table_3")
# Of the exported step, what TensorFlow makes of it: the paper's model for few tokens, and for many
# an activation without ReLU's corner (see exported_check.py).
CHECKS: dict[str, tuple[str, ...]] = {
    "check": (),
    "check_smooth": ("--activation=swish", "--tokens=2048"),
}


class Part(NamedTuple):
    """One thing to be known.

    Attributes:
        name: in the results.
        limit: seconds that it may take.
        python: which Python runs its commands, `JAX` or `TENSORFLOW`.
        commands: arguments of that Python, done one after the other.
    """

    name: str
    limit: int
    python: str
    commands: tuple[tuple[str, ...], ...]


class Sizes(NamedTuple):
    """How large a day is.

    Attributes:
        programs: sizes of models whose step is exported, small to large.
        tokens: padded target tokens of a batch, three numbers.
        length: of the sentences of exported programs.
        model: that decodes, and whose losses are compared.
        steps: of the trainer's loop that are timed.
        rounds: of measurements in alternation.
        batch: target tokens of a batch in TensorFlow's own measurements.
        pairs: of the news text, most that are taken.
        multi30k: bindings beside those of gin/multi30k_tiny.gin.
        wmt14: bindings beside those of gin/base_ende.gin.
        table_3: bindings of every row beside those of table_3.py.
        rows: of Table 3 that are trained.
        seeds: of trainings to the end.
        last: checkpoints of Multi30k's that are averaged.
    """

    programs: tuple[str, ...]
    tokens: tuple[int, ...]
    length: int
    model: str
    steps: int
    rounds: int
    batch: int
    pairs: int
    multi30k: Bindings
    wmt14: Bindings
    table_3: Bindings
    rows: tuple[str, ...]
    seeds: tuple[int, ...]
    last: int


SIZES = {
    "full": Sizes(
        programs=("gpu_base", "gpu_big"),
        tokens=(25_000, 12_500, 3_125),  # the last is what each of eight GPUs gets of the paper's
        length=40,
        model="base",
        steps=400,
        rounds=3,
        batch=25_000,
        pairs=10**9,
        multi30k=(),
        wmt14=("train.precision = 'mixed_bfloat16'",),
        table_3=(),
        rows=tuple(table_3.ROWS),
        seeds=(1, 2, 3),
        last=10,
    ),
    "tiny": Sizes(
        programs=("smoke",),
        tokens=(128,),
        length=8,
        model="smoke",
        steps=6,
        rounds=1,
        batch=256,
        pairs=2_000,
        multi30k=(
            "Batches.tokens_per_batch = 512",
            "Pace.steps = 4",
            "Pace.evaluate_every = 4",
            "Checkpoints.every_steps = 2",
            "DevEvaluation.sentences = 8",
        ),
        wmt14=(
            "Batches.tokens_per_batch = 2048",
            "SubwordTraining.vocab_size = 2000",
            "Transformer.vocab_size = 2048",
            "Transformer.num_layers = 1",
            "LayerConfig.d_ff = 64",
            "d_model = 32",
        ),
        table_3=("Pace.steps = 4", "Batches.tokens_per_batch = 256", "d_model = 32"),
        rows=("base_ende",),
        seeds=(1,),
        last=2,
    ),
}


def all_parts(sizes: Sizes, kit: Path, runs: Path, pytorch: str) -> Iterator[Part]:
    """Yields the parts in their order.

    Args:
        sizes: how large they are.
        kit: what was prepared.
        runs: where trainings write.
        pytorch: the Python that has PyTorch.
    """
    yield from exported(sizes, kit, runs, pytorch)
    yield from in_tensorflow(sizes, kit, runs, pytorch)
    yield from quality(sizes, kit, runs)


def exported(sizes: Sizes, kit: Path, runs: Path, pytorch: str) -> Iterator[Part]:
    """The train step's program in JAX, which a machine may have where it has no TensorFlow."""
    script, logs = "benchmarks/exported_in_jax.py", f"--log_dir={runs / 'logs'}"
    checks = tuple((script, f"--check={kit / name}", RESULTS) for name in CHECKS)
    yield Part("program, equal to TensorFlow", 120, JAX, checks)
    options = (f"--rounds={sizes.rounds}", f"--pythons=pytorch_compiled={pytorch}", logs, RESULTS)
    for size in sizes.programs:
        for tokens in sizes.tokens:
            program = kit / "programs" / program_name(size, tokens, sizes.length)
            command = (script, f"--time={program}", *options)
            yield Part(f"program, {size}, {tokens} tokens", 150, JAX, (command,))
    for size in sizes.programs:
        program = kit / "programs" / program_name(size, sizes.tokens[0], sizes.length)
        alone = (script, f"--time={program}", "--peers=exported@triton", *options)
        yield Part(f"program, {size}, with Triton's products", 200, JAX, (alone,))


def program_name(size: str, tokens: int, length: int) -> str:
    """The folder of a program, as `exported_step.py` names it."""
    rows = max(8, tokens // length // 8 * 8)
    return f"{size}_bfloat16_{rows}x{length}"


def in_tensorflow(sizes: Sizes, kit: Path, runs: Path, pytorch: str) -> Iterator[Part]:
    """TensorFlow itself: does it run, is it right, how fast is it."""

    def part(name: str, limit: int, *command: str) -> Part:
        return Part(name, limit, TENSORFLOW, (command,))

    yield part("smoke test", 60, "scripts/gpu/smoke_test.py")
    losses = f"--expected={kit / 'losses.json'}"
    yield part("losses as on a CPU", 120, "benchmarks/same_losses.py", losses)
    rounds, logs = f"--rounds={sizes.rounds}", f"--log_dir={runs / 'logs'}"
    for size in sizes.programs:
        own = ("benchmarks/gpu_training.py", f"--sizes={size}", f"--work={runs / 'work'}", rounds)
        peer = (f"--pythons=pytorch_compiled={pytorch}", f"--tokens_per_batch={sizes.batch}")
        yield part(f"training, {size}", 240, *own, *peer, logs, RESULTS)
    for data, more in LOOPS:
        name = ", ".join((data, *more))
        run = runs / re.sub(r"\W+", "_", name)
        of_loop = (*more, *pace(sizes.steps))
        speed = ("benchmarks/trainer_speed.py", f"--case={name}", "--")
        options = trainer_options(sizes, kit, data, run, of_loop)
        yield part(f"trainer, {name}", 150, *speed, *options)
    model = "base" if sizes.model == "base" else "quickstart"
    xla = ("benchmarks/xla.py", "--precision=mixed_bfloat16", "--repetitions=1", "--steps=5")
    yield part("XLA on and off", 180, *xla, "--sizes", model, f"--tokens={sizes.batch}")
    decoding = ("benchmarks/decoding.py", f"--sizes={sizes.model}", "--dtypes=bfloat16", rounds)
    for name, ours in (("decoding", "ours@whole"), ("SavedModel", "ours@saved_model")):
        of_it = (f"--peers={ours}", f"--work={kit / 'work'}", logs, RESULTS)
        yield part(name, 150, *decoding, *of_it)


def pace(steps: int) -> Bindings:
    """Has a training take so many steps, and report ten times; no evaluation, no checkpoint."""
    numbers = {"Pace.steps": steps, "Pace.report_every": max(1, steps // 10)}
    numbers |= dict.fromkeys(("Pace.evaluate_every", "Checkpoints.every_steps"), 10 * steps)
    return tuple(f"{name} = {value}" for name, value in numbers.items())


def data_options(sizes: Sizes, kit: Path, data: str) -> tuple[str, ...]:
    """What datagen and trainer are told of data: "multi30k", "wmt14" or "table_3"."""
    text = kit / "text"
    multi30k = f"Multi30kCorpus.local_dir = '{text / 'multi30k'}'"
    news = tuple(
        f"TextFilesCorpus.{split} = ('{text}/wmt14/{split}.en.gz', '{text}/wmt14/{split}.de.gz')"
        for split in NEWS
    )
    files = "prepare.corpus = @TextFilesCorpus()"
    of_each: dict[str, Bindings] = {
        "multi30k": ("gin/multi30k_tiny.gin", multi30k, *sizes.multi30k),
        "table_3": ("gin/table_3_multi30k.gin", multi30k),
        "wmt14": ("gin/base_ende.gin", files, *news, *sizes.wmt14),
    }
    gin_file, *bindings = of_each[data]
    options = (f"--gin_file={gin_file}", f"--data_dir={kit / 'data' / data}")
    return (*options, *(f"--gin_param={binding}" for binding in bindings))


def trainer_options(
    sizes: Sizes, kit: Path, data: str, run: Path, bindings: Bindings
) -> tuple[str, ...]:
    """Arguments of the trainer; the last of two bindings of the same counts."""
    more = (f"--gin_param={binding}" for binding in bindings)
    return (*data_options(sizes, kit, data), f"--model_dir={run}", *more)


def quality(sizes: Sizes, kit: Path, runs: Path) -> Iterator[Part]:
    """Multi30k as published, three seeds; and Table 3 in small with ten times the parameters."""
    for seed in sizes.seeds:
        run = runs / f"multi30k_seed_{seed}"
        options = trainer_options(sizes, kit, "multi30k", run, (f"train.seed = {seed}",))
        average = ("-m", "t2t_repro.average", f"--model_dir={run}", f"--last={sizes.last}")
        commands = (("-m", "t2t_repro.trainer", *options), average, *scored(kit, "multi30k", run))
        yield Part(f"multi30k, seed {seed}", 560, TENSORFLOW, commands)
    for seed in sizes.seeds:
        for row in sizes.rows:
            run = runs / f"table_3_{row}_seed_{seed}"
            bindings = (*table_3.BASE, *table_3.ROWS[row], *sizes.table_3, f"train.seed = {seed}")
            options = trainer_options(sizes, kit, "table_3", run, bindings)
            commands = (("-m", "t2t_repro.trainer", *options), *scored(kit, "table_3", run))
            yield Part(f"table 3, {row}, seed {seed}", 300, TENSORFLOW, commands)


def scored(kit: Path, data: str, run: Path) -> tuple[tuple[str, ...], ...]:
    """Scores a model, of Multi30k the average on the test set, and makes rows of the scores."""
    split = ("--split=dev", "--checkpoint=latest") if data == "table_3" else ("--split=test",)
    options = (f"--model_dir={run}", f"--data_dir={kit / 'data' / data}", *split)
    return ("-m", "t2t_repro.evaluate", *options), ("scripts/gpu/score_rows.py", str(run))
