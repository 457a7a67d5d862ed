"""The same training on one, two and eight devices, with XLA and without: one loss.

    python -m tests.training.one_loss

prints the losses of all of them side by side, as a Markdown table, and the largest difference.
"""

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 50
SLICES = 8
WAYS = [(replicas, xla) for xla in (False, True) for replicas in (1, 2, 8)]
"""Replicas, and whether XLA compiles."""


def losses(folder: Path, replicas: int, xla: bool, last: int = STEPS) -> list[float]:
    """Trains with dropout on sentences of all lengths, from the folder's checkpoint on.

    Returns:
        the loss of every update up to the last, after which there is a checkpoint.
    """
    import tests.conftest  # noqa: F401 (eight logical devices)
    from t2t_repro.data.batches import Batches
    from t2t_repro.training.checkpoints import Checkpoints
    from t2t_repro.training.model_directory import ModelDirectory
    from tests.training.tiny import tiny_step

    step = tiny_step(replicas=replicas, dropout=0.2, slices=SLICES, jit_compile=xla)
    store = _store(folder / "store")
    batches = Batches(store, 3, SLICES, is_static=xla, tokens_per_batch=800, max_shapes=2)
    step.compile(batches.shapes)
    checkpoints = Checkpoints(ModelDirectory(folder), step.model, step.optimizer)
    state = checkpoints.restore()
    found = []
    while state.step < last:
        for batch in batches.epoch(state.epoch, state.batch).take(last - state.step):
            found.append(float(step(state.step, *batch).loss))
            state = state.after_update()
        if state.batch == len(batches.plan(state.epoch)):
            state = state.after_epoch()
    checkpoints.save(state)
    return found


def _store(folder: Path) -> Any:
    """300 pairs of 2 to 24 ids."""
    from t2t_repro.data.token_store import TokenStore
    from tests.token_stores import write_token_store
    from tests.training.tiny import VOCAB

    if folder.exists():
        return TokenStore(folder)
    rng = np.random.default_rng(0)
    sources = [rng.integers(2, VOCAB, rng.integers(1, 24)).tolist() for _ in range(300)]
    pairs = [([*source, 1], [*source[::-1], 1]) for source in sources]
    return write_token_store(folder, pairs, vocab_size=VOCAB)


def in_a_process(*arguments: Any) -> list[float]:
    """`losses` in a process of its own: collectives want all strategies to be of one size."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(losses, *arguments).result()


def all_losses(folder: Path) -> dict[str, list[float]]:
    """Of all `WAYS`, and of a run that goes on with other devices twice, by name."""

    def going_on() -> list[float]:
        return [
            loss
            for replicas, last in ((1, 15), (2, 32), (8, STEPS))
            for loss in in_a_process(folder / "resumed", replicas, False, last)
        ]

    # Most of their time is TensorFlow's start, on one core.
    with ThreadPoolExecutor(2) as two_at_once:
        found = {"1, then 2, then 8": two_at_once.submit(going_on)}
        for replicas, xla in WAYS:
            name = f"{replicas} × {'XLA' if xla else 'graph'}"
            found[name] = two_at_once.submit(
                in_a_process, folder / f"{replicas}-{xla}", replicas, xla
            )
        return {name: one.result() for name, one in found.items()}


def main() -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = all_losses(Path(folder))
    print(f"| step | {' | '.join(found)} |\n|---{'|---' * len(found)}|")
    table = np.array(list(found.values()))
    for step in [1, 2, *range(10, STEPS + 1, 10)]:
        print(f"| {step} | {' | '.join(f'{loss:.6f}' for loss in table[:, step - 1])} |")
    print(f"Largest relative difference: {np.abs(table / table[0] - 1).max():.1e}")


if __name__ == "__main__":
    main()
