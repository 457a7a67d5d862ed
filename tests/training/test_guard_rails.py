"""Room for checkpoints and permissions, checked before a run."""

import shutil
from collections import namedtuple

import pytest

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.checkpoints import Checkpoints, CheckpointSettings
from t2t_repro.training.guard_rails import check_disk, check_writable
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from tests.training.tiny import tiny_model


@pytest.fixture(scope="module")
def run():
    model = tiny_model()
    optimizer = adam(learning_rate=0.1)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def checkpoints_in(folder, run, **settings):
    return Checkpoints(ModelDirectory(folder), run[0], run[1], CheckpointSettings(**settings))


def test_all_checkpoints_to_come_have_to_fit(tmp_path, monkeypatch, run):
    usage = namedtuple("usage", "total used free")

    def leave(free):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, free))

    checkpoints = checkpoints_in(tmp_path / "saved", run)
    checkpoints.save(RunState(step=1))
    data = (tmp_path / "saved" / "checkpoints").glob("step-1.data*")
    leave(6 * sum(file.stat().st_size for file in data))
    check_disk(tmp_path / "new", checkpoints.variables, 6)
    # The weights and two moments of each.
    leave(6 * 12 * run[0].count_params() - 1)
    with pytest.raises(UserError, match=r"^6 checkpoints of .* GB free"):
        check_disk(tmp_path / "new", checkpoints.variables, 6)
    check_disk(tmp_path / "new", checkpoints.variables, 5)


@pytest.mark.parametrize(
    ("settings", "updates", "existing", "to_come"),
    [
        # Four, the best, and one that is being written.
        ({"keep": 4}, 10_000, [], 6),
        ({"keep": 4}, 10_000, [1000], 5),
        ({"keep": 4}, 10_000, [1, 2, 3, 4, 5], 2),
        # After 1,000 and 1,500 updates.
        ({"keep": 4}, 1500, [], 4),
        ({"keep": 4, "every_minutes": 1.0}, 1500, [], 6),
    ],
)
def test_how_many_checkpoints_are_to_come(tmp_path, run, settings, updates, existing, to_come):
    checkpoints = checkpoints_in(tmp_path, run, **settings)
    (tmp_path / "checkpoints").mkdir()
    for step in existing:
        (tmp_path / "checkpoints" / f"step-{step}.index").touch()
    assert checkpoints.to_come(updates) == to_come


def test_a_folder_that_cannot_be_written_to(tmp_path):
    check_writable(tmp_path / "new" / "model")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^cannot write to .*file.model "):
        check_writable(tmp_path / "file" / "model")
