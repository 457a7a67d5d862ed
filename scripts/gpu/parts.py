"""What is measured on a GPU day, in order: every part has commands and a time limit.

Needs nothing but Python. Programs (`exported_in_jax.py`) come before TensorFlow, which has to be
put together first; measurements come before trainings.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

JAX, TENSORFLOW = "jax", "tensorflow"
TRAINER = ("-m", "t2t_repro.trainer")
SEEDS = (1, 2, 3)


class Part(NamedTuple):
    """One thing to be known.

    Attributes:
        name: in the results.
        limit: seconds that it may take.
        python: which Python runs its commands, `JAX` or `TENSORFLOW`.
        commands: arguments of that Python, done one after the other; what they print in JSON are
            results.
        is_quality: whether it is a training to the end, done when everything else is.
    """

    name: str
    limit: int
    python: str
    commands: tuple[tuple[str, ...], ...]
    is_quality: bool = False


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
        quality: bindings of Multi30k's trainings; none to train as published.
    """

    programs: tuple[str, ...]
    tokens: tuple[int, ...]
    length: int
    model: str
    steps: int
    rounds: int
    batch: int
    quality: tuple[str, ...]


SIZES = {
    # 3,125: what each of eight GPUs gets of the paper's batch.
    "full": Sizes(("gpu_base", "gpu_big"), (3_125, 12_500, 25_000), 40, "base", 400, 3, 25_000, ()),
    "tiny": Sizes(
        ("smoke",),
        (128, 256, 512),
        8,
        "smoke",
        6,
        1,
        256,
        ("Pace.steps = 4", "Checkpoints.every_steps = 2", "Batches.tokens_per_batch = 512"),
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
    yield from exported(sizes, kit, pytorch)
    yield from in_tensorflow(sizes, kit, runs, pytorch)
    yield from quality(sizes, kit, runs)


def exported(sizes: Sizes, kit: Path, pytorch: str) -> Iterator[Part]:
    """The train step's program in JAX, which a machine may have where it has no TensorFlow."""
    script = "benchmarks/exported_in_jax.py"
    check = (script, f"--check={kit / 'check'}")
    yield Part("equal to TensorFlow", 120, JAX, (check,))
    for size in sizes.programs:
        for tokens in sizes.tokens:
            program = kit / "programs" / program_name(size, tokens, sizes.length)
            options = (f"--rounds={sizes.rounds}", f"--pythons=pytorch_compiled={pytorch}")
            command = (script, f"--time={program}", *options)
            yield Part(f"program, {size}, {tokens} tokens", 150, JAX, (command,))


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
    yield part("losses", 120, "benchmarks/same_losses.py", losses)
    rounds = f"--rounds={sizes.rounds}"
    for size in sizes.programs:
        batch = f"--tokens_per_batch={sizes.batch}"
        peer = f"--pythons=pytorch_compiled={pytorch}"
        own = ("benchmarks/gpu_training.py", f"--sizes={size}", batch, rounds, peer)
        yield part(f"training, {size}", 240, *own, *kept(runs))
    for name, bindings in loops(kit).items():
        options = trainer_options(kit, runs / name, name, pace(sizes.steps, bindings))
        speed = ("benchmarks/trainer_speed.py", f"--case={name}", "--", *options)
        yield part(f"trainer, {name}", 150, *speed)
    xla = ("benchmarks/xla.py", "--precision=mixed_bfloat16", "--repetitions=1")
    model = "base" if sizes.model == "base" else "quickstart"
    yield part("XLA", 180, *xla, "--sizes", model, f"--tokens={sizes.batch}")
    decoding = ("benchmarks/decoding.py", f"--sizes={sizes.model}", "--dtypes=bfloat16", rounds)
    sources = f"--work={kit / 'work'}"
    for name, peer in (("decoding", "ours@whole"), ("SavedModel", "ours@saved_model")):
        of_it = (f"--peers={peer}", sources, *kept(runs, work=False))
        yield part(name, 150, *decoding, *of_it)


def kept(runs: Path, work: bool = True) -> tuple[str, ...]:
    """Where benchmarks that work in alternation write; their rows go to the results."""
    options = ("--output={results}", f"--log_dir={runs / 'logs'}")
    return (*options, f"--work={runs / 'work'}") if work else options


def loops(kit: Path) -> Mapping[str, tuple[str, ...]]:
    """The trainings whose loop is timed: each one's bindings."""
    bfloat16 = ("train.precision = 'mixed_bfloat16'",)
    return {
        "multi30k": (),
        "wmt14": bfloat16,
        "wmt14_one_slice": (*bfloat16, "TrainStep.slices = 1"),
    }


def pace(steps: int, bindings: tuple[str, ...]) -> tuple[str, ...]:
    """Has a training take so many steps, and report ten times; no evaluation, no checkpoint."""
    every = max(1, steps // 10)
    numbers = {"Pace.steps": steps, "Pace.report_every": every}
    numbers |= dict.fromkeys(("Pace.evaluate_every", "Checkpoints.every_steps"), 10 * steps)
    return (*bindings, *(f"{name} = {value}" for name, value in numbers.items()))


def trainer_options(kit: Path, run: Path, name: str, bindings: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of the trainer, with data that are prepared."""
    data = name.partition("_")[0]
    gin_file = kit / "gin" / f"{data}.gin"
    options = (f"--gin_file={gin_file}", f"--data_dir={kit / 'data' / data}", f"--model_dir={run}")
    return (*options, *(f"--gin_param={binding}" for binding in bindings))


def quality(sizes: Sizes, kit: Path, runs: Path) -> Iterator[Part]:
    """Multi30k as published, three seeds, and Table 3 in small with ten times the parameters."""
    for seed in SEEDS:
        run = runs / f"multi30k_seed_{seed}"
        options = trainer_options(kit, run, "multi30k", (*sizes.quality, f"train.seed = {seed}"))
        model = (f"--model_dir={run}", f"--data_dir={kit / 'data' / 'multi30k'}")
        commands = (
            ("benchmarks/trainer_speed.py", f"--case=multi30k seed {seed}", "--", *options),
            ("-m", "t2t_repro.average", f"--model_dir={run}", "--last=10"),
            ("-m", "t2t_repro.evaluate", *model, "--split=test"),
            ("scripts/gpu/score_rows.py", str(run)),
        )
        yield Part(f"Multi30k, seed {seed}", 560, TENSORFLOW, commands, is_quality=True)
