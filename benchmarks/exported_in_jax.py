"""Runs the train step that `exported_step.py` has written in JAX: is it right, and how fast is it?

    python benchmarks/exported_in_jax.py --check=check --output=results.jsonl
    python benchmarks/exported_in_jax.py --time=programs/gpu_base_bfloat16_384x64 --rounds=3

Needs JAX; on a GPU machine that has no TensorFlow it measures our program under JAX's XLA.
--check holds loss and gradients, and a whole update (weights, Adam's moments, what is reported)
against TensorFlow's, which `exported_check.py` has written; on a GPU also with products in TF32,
the default there. --time has whole updates done in alternation with
PyTorch's (`peers/pytorch_compiled.py`) on the same random sentences: target tokens a second, PAD
not counted, the share of the chip's measured rate in 8192³ products, the peak of memory. The loss
of every update is read. JSON lines are appended to --output as they come.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alternation import MATMUL, alternate, write_results
from gpu_training import random_sentences
from operations import training_operations
from work import DEFAULT_DIRECTORY, Batch, ModelSize
from worker import Round, serve

EXPORTED, PYTORCH = "exported", "pytorch_compiled"
PEERS = (EXPORTED, PYTORCH)
# A compiler that may not choose Triton's products is done in a fraction of the time.
VARIANTS: dict[str, dict[str, Any]] = {
    EXPORTED: {"xla_gpu_enable_triton_gemm": False},
    f"{EXPORTED}@triton": {},
}
MATMUL_SIZES = {"gpu": 8192, "cpu": 512}
TOLERANCE = 1e-5
"""Of an error, relative to the norm of a gradient, a moment or a weight's change; float32, exact
products."""


class Case(NamedTuple):
    """What is timed, as the program's description has it.

    Attributes:
        name: of the folder.
        size: of the model.
        dtype: that it computes in.
        batch: random sentences, of the program's shape.
    """

    name: str
    size: ModelSize
    dtype: str
    batch: Batch

    @classmethod
    def read(cls, folder: Path) -> "Case":
        """Reads a description, and draws the sentences."""
        found = json.loads((folder / "description.json").read_text(encoding="utf-8"))
        size, shape = ModelSize(**found["size"]), found["shape"]
        generator = np.random.default_rng(1)
        lengths = (shape["source_length"], shape["target_length"])
        sides = (random_sentences(generator, size, shape["rows"] * n, n) for n in lengths)
        return cls(folder.name, size, found["dtype"], Batch(*sides))


def main() -> None:
    """Checks, or times, or is one of the processes that are timed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--check", type=Path, help="a folder of exported_check.py")
    kind.add_argument("--time", type=Path, help="a folder of exported_step.py")
    parser.add_argument("--output", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--peers", default=",".join(PEERS), help=f"also {EXPORTED}@triton")
    parser.add_argument("--pythons", default="", help=f"{PYTORCH}=PYTHON: where PyTorch is")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--log_dir", type=Path, default=DEFAULT_DIRECTORY / "logs")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(partial(get_ready, options.worker, options.time, options.steps))
    elif options.check:
        is_right = check(options.check, options.output)
        sys.exit(0 if is_right else 1)
    else:
        measure(options)


def check(folder: Path, output: Path) -> bool:
    """Appends a row for either program in exact float32, on a GPU also for TF32.

    Returns:
        whether all errors in exact float32 are below the tolerance.
    """
    import jax

    from step_in_jax import Program

    platform = jax.default_backend()
    with np.load(folder / "check.npz") as kept:
        arrays = [kept[f"arr_{i}"] for i in range(len(kept.files))]
    gradients, update = (Program.read(folder, name) for name in ("gradients", "update"))
    read, given = arrays[: len(update.inputs)], arrays[len(update.inputs) :]
    # Of what an update reads, the weights and the batch.
    weights, batch = read[: gradients.description["weights"]], read[len(update.state) + 1 :]
    cases = (
        (gradients, [*weights, *batch], given[: len(gradients.outputs)]),
        (update, read, given[len(gradients.outputs) :]),
    )
    is_right = True
    for program, inputs, expected in cases:
        for is_exact in (True, False) if platform == "gpu" else (True,):
            call = jax.jit(program.call(platform.replace("gpu", "cuda"), is_exact))
            found = [np.asarray(x) for x in call(*inputs)]
            before = inputs[: len(weights)] if program is update else []
            errors = relative_errors(found, expected, before)
            worst = int(np.argmax(errors))
            is_right &= not is_exact or errors[worst] < TOLERANCE
            row = {
                "benchmark": "exported program",
                "case": f"{folder.name}, {program.name}, {'float32' if is_exact else 'TF32'}",
                "value": errors[worst],
                "unit": "largest relative error",
                "of": program.outputs[worst][0],
                "median": float(np.median(errors)),
                "device": jax.devices()[0].device_kind,
                "jax": jax.__version__,
            }
            write_row(output, row)
    return is_right


def relative_errors(
    found: Sequence[NDArray], expected: Sequence[NDArray], before: Sequence[NDArray]
) -> list[float]:
    """The errors of a program's outputs: of weights, the first outputs, that of their change.

    A change is far smaller than the weight, whose last bit is another wherever two programs round
    to another side: a difference of one such bit counts for nothing.

    Args:
        found: every output.
        expected: likewise.
        before: of those outputs that are weights, what they were; none for gradients.
    """
    errors = []
    for weight, *values in zip(before, found, expected, strict=False):
        last_bit = np.spacing(np.max(np.abs(values), axis=0))
        of_found, of_expected = values
        same = np.abs(of_found - of_expected) <= last_bit
        errors.append(error(np.where(same, of_expected, of_found) - weight, of_expected - weight))
    return [*errors, *map(error, found[len(before) :], expected[len(before) :])]


def error(found: NDArray, expected: NDArray) -> float:
    """The norm of the difference, relative to that of what is expected."""
    norm = float(np.linalg.norm(expected))
    return float(np.linalg.norm(found - expected)) / max(norm, 1e-30)


def write_row(output: Path, row: dict[str, Any]) -> None:
    """Prints a row, and appends it."""
    line = json.dumps(row)
    print(line, flush=True)
    with output.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def measure(options: argparse.Namespace) -> None:
    """Has our program and PyTorch do rounds in alternation, and appends their rows."""
    case = Case.read(options.time)
    pythons = dict(one.split("=", 1) for one in options.pythons.split(",") if one)
    own = [__file__, f"--time={options.time}", f"--steps={options.steps}"]

    def command(peer: str) -> Sequence[Path | str]:
        return [pythons.get(peer, sys.executable), *own, f"--worker={peer}"]

    peers = (*options.peers.split(","), MATMUL)
    commands = {peer: partial(command, peer) for peer in peers}
    print(f"{case.name}: {case.batch.target_tokens:,} target tokens an update", flush=True)
    measured = alternate(commands, options.rounds, options.log_dir)
    if not measured or measured[-1].peer != MATMUL:
        raise SystemExit("error: the rate of matrix products could not be measured")
    operations = training_operations(case.size, case.batch) / case.batch.target_tokens
    labels = {
        "benchmark": "exported program on a GPU",
        "case": case.name,
        "unit": "target tokens/s",
        "tokens_per_batch": case.batch.target.size,
    }
    write_results(options.output, measured, operations, labels)


def get_ready(peer: str, folder: Path, steps: int) -> Round:
    """Makes the round of one of the processes."""
    case = Case.read(folder)
    if peer == MATMUL:
        return matrix_products(case.dtype)
    if peer == PYTORCH:
        from peers.pytorch_compiled import training_step

        train: Callable[[], float] = partial(training_step(case.size, case.dtype), case.batch)
    else:
        train = Updates(folder, case.batch, VARIANTS[peer])

    def do_round() -> float:
        for _ in range(steps):
            loss = train()
            if not 0.0 < loss < 20.0:
                raise RuntimeError(f"{peer}: the loss is {loss}, expected nats per token")
        return float(steps * case.batch.target_tokens)

    return do_round


class Updates:
    """Our updates in JAX: weights and Adam's moments stay on the device.

    Args:
        folder: of the program.
        batch: that every update is made with.
        xla: options of the compiler, for a GPU.
    """

    def __init__(self, folder: Path, batch: Batch, xla: dict[str, Any]) -> None:
        import jax

        from step_in_jax import Program, initial_state

        platform = jax.default_backend()
        program = Program.read(folder, "update")
        self._state = [jax.device_put(x) for x in initial_state(program.description)]
        named = {name: shape for name, shape, _ in program.inputs}
        self._batch = [jax.device_put(x) for x in batch]
        self._seeds = np.random.default_rng(1).integers(0, 2**31, named["seeds"], np.int64)
        self._number = 0
        call = program.call(platform.replace("gpu", "cuda"))
        function = jax.jit(call, donate_argnums=program.state)
        inputs = program.specifications()
        self._update = function.lower(*inputs).compile(xla if platform == "gpu" else {})

    def __call__(self) -> float:
        """Makes an update; returns the negative log-likelihood per target token."""
        number = np.int64(self._number)
        # Other masks of dropout in every update.
        found = self._update(*self._state, number, self._seeds + self._number, *self._batch)
        self._number += 1
        self._state = found[: len(self._state)]
        return float(found[len(self._state) + 1])


def matrix_products(dtype: str) -> Round:
    """A round of square matrix products, of which it returns the operations."""
    import jax
    import jax.numpy as jnp

    size, count = MATMUL_SIZES[jax.default_backend()], 20
    a, b = (jax.random.normal(jax.random.key(i), (size, size), jnp.dtype(dtype)) for i in range(2))
    product = jax.jit(jnp.matmul)

    def do_round() -> float:
        for _ in range(count):
            c = product(a, b)
        c.block_until_ready()
        return count * 2.0 * size**3

    return do_round


if __name__ == "__main__":
    main()
