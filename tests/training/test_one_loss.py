"""The same training on one, two or eight devices, with XLA or not, resumed or not: one loss."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.batches import Batches
from t2t_repro.data.token_store import TokenStore
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.run_state import RunState
from t2t_repro.training.settings import CheckpointSettings
from tests.commands import said_by
from tests.token_stores import write_token_store
from tests.training.tiny import VOCAB, tiny_step

STEPS = 15
MICRO_BATCHES = 8


@pytest.mark.parametrize("most", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_all_devices_have_one_loss(most, tmp_path):
    """And so has a run that goes on with other devices: 1, then 2 with XLA, then 8."""
    rng = np.random.default_rng(0)
    sources = [rng.integers(2, VOCAB, rng.integers(1, 24)).tolist() for _ in range(200)]
    pairs = [([*source, 1], [*source[::-1], 1]) for source in sources]
    write_token_store(tmp_path / "store", pairs, vocab_size=VOCAB)
    losses, resumed = [], []
    for replicas, xla, last in ((1, "", 4), (2, "xla", 10), (8, "", STEPS)):
        if replicas > most:
            break
        last = STEPS if replicas == most else last
        # All strategies of a process have to be of one size.
        said = said_by(__name__, str(tmp_path), str(replicas), str(last), xla)
        whole, part = json.loads(said.splitlines()[-1])
        losses.append(whole)
        resumed += part
    table = np.array([*losses, resumed])
    assert table.shape == (len(losses) + 1, STEPS)
    np.testing.assert_allclose(table, np.broadcast_to(table[0], table.shape), rtol=1e-5)
    # The loss falls: the curves that are compared are not constant.
    assert table[0, -5:].mean() < table[0, :5].mean() - 0.1


def _train(folder, replicas, jit_compile, last):
    """Returns all losses, and those from the newest checkpoint to the last update.

    The same TrainStep makes both: its first training must leave nothing behind.
    """
    store = TokenStore(folder / "store")
    batches = Batches(store, BatchSettings(800, max_shapes=1), 3, MICRO_BATCHES, jit_compile)
    step = tiny_step(replicas, dropout=0.2, micro_batches=MICRO_BATCHES, jit_compile=jit_compile)
    step.compile(batches.shapes)
    checkpoints = Checkpoints(ModelDirectory(folder / "model"), step, CheckpointSettings())
    if not checkpoints.newest:
        checkpoints.save(RunState())
    losses, _ = _losses(step, batches, RunState(), STEPS)
    part, state = _losses(step, batches, checkpoints.restore(), last)
    checkpoints.save(state)
    return losses, part


def _losses(step, batches, state, last):
    """The loss of every update behind a state up to the last, and the state then."""
    losses = []
    while state.step < last:
        for batch in batches.epoch(state.epoch, state.batch).take(last - state.step):
            losses.append(float(step(state.step, *batch).loss))
            state = state.after_update()
        if state.batch == len(batches.plan(state.epoch)):
            state = state.after_epoch()
    return losses, state


if __name__ == "__main__":
    # Eight logical devices in every process.
    import tests.replicas  # noqa: F401

    folder, replicas, last, xla = sys.argv[1:]
    print(json.dumps(_train(Path(folder), int(replicas), bool(xla), int(last))))
