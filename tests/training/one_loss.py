"""The same training on one, two and eight devices, with XLA and without: one loss.

    python -m tests.training.one_loss

prints the losses of all of them side by side, as a Markdown table, and the largest difference.
"""

import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import tests.conftest  # noqa: F401 (eight logical devices)
from t2t_repro.data.batches import Batches, BatchSettings
from t2t_repro.data.token_store import TokenStore
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.checkpoints import Checkpoints, CheckpointSettings
from t2t_repro.training.run_state import RunState
from t2t_repro.training.train_step import TrainStep
from tests.token_stores import write_token_store
from tests.training.tiny import VOCAB, tiny_step

STEPS = 50
MICRO_BATCHES = 8
GOING_ON = ((1, 15), (2, 32), (8, STEPS))
"""Replicas, and the last update that a run which changes them has on so many."""


def all_losses(
    folder: Path, going_on: Sequence[tuple[int, int]] = GOING_ON
) -> dict[str, list[float]]:
    """On all numbers of replicas, without XLA and with it, and of the run that changes them.

    Collectives want all strategies of a process to be of one size: each size has its own.

    Args:
        folder: an empty one.
        going_on: numbers of replicas, and for each the last update that the run which changes them
            makes on so many.
    """
    found: dict[str, list[float]] = {}
    resumed: list[float] = []
    for number, (replicas, last) in enumerate(going_on):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            graph, xla, part = process.submit(
                _on_replicas, folder, replicas, number == 0, last
            ).result()
        found |= {f"{replicas} × graph": graph, f"{replicas} × XLA": xla}
        resumed += part
    return found | {", then ".join(str(replicas) for replicas, _ in going_on): resumed}


def _on_replicas(folder: Path, replicas: int, is_first: bool, last: int) -> tuple[list[float], ...]:
    """All losses without XLA and with it, and those from the newest checkpoint to the last update.

    That part is of a TrainStep which has trained before: what it was must leave nothing behind.
    """
    store = _store(folder / "store")
    step, xla = (
        tiny_step(
            replicas=replicas, dropout=0.2, micro_batches=MICRO_BATCHES, jit_compile=is_compiled
        )
        for is_compiled in (False, True)
    )
    checkpoints = Checkpoints(
        ModelDirectory(folder / "resumed"), step.model, step.optimizer, CheckpointSettings()
    )
    if is_first:
        checkpoints.save(RunState())
    graph, _ = _losses(step, store, RunState(), STEPS)
    resumed, state = _losses(step, store, checkpoints.restore(), last)
    checkpoints.save(state)
    return graph, _losses(xla, store, RunState(), STEPS)[0], resumed


def _losses(
    step: TrainStep, store: TokenStore, state: RunState, last: int
) -> tuple[list[float], RunState]:
    """The loss of every update behind a state up to the last, and the state then."""
    is_static = step.jit_compile
    batches = Batches(store, BatchSettings(800, max_shapes=1), 3, MICRO_BATCHES, is_static)
    step.compile(batches.shapes)
    found = []
    while state.step < last:
        for batch in batches.epoch(state.epoch, state.batch).take(last - state.step):
            found.append(float(step(state.step, *batch).loss))
            state = state.after_update()
        if state.batch == len(batches.plan(state.epoch)):
            state = state.after_epoch()
    return found, state


def _store(folder: Path) -> TokenStore:
    """300 pairs of 2 to 24 ids."""
    if folder.exists():
        return TokenStore(folder)
    rng = np.random.default_rng(0)
    sources = [rng.integers(2, VOCAB, rng.integers(1, 24)).tolist() for _ in range(300)]
    pairs = [([*source, 1], [*source[::-1], 1]) for source in sources]
    return write_token_store(folder, pairs, vocab_size=VOCAB)


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
