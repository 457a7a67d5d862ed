"""What differs between workers is named: versions, source, devices, bindings, checkpoints."""

from typing import Any

import gin
import pytest

from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training import same_on_all_workers
from t2t_repro.training.optimizer import adam  # noqa: F401 (for gin)
from t2t_repro.training.same_on_all_workers import check_same
from t2t_repro.training.source_digest import source_digest
from t2t_repro.training.workers import Workers


def worker_0(change):
    """A worker that finds what the other has when it gathers: its own, changed."""
    workers: Any = Workers()
    workers.gather = lambda value: [value, change(value)]
    return workers


def replaced(old, new):
    """A change of what is `old` somewhere in a dictionary."""
    return lambda value: (
        {key: new if one == old else one for key, one in value.items()}
        if isinstance(value, dict)
        else value
    )


@pytest.fixture
def directory(tmp_path):
    return ModelDirectory(tmp_path)


def test_workers_that_are_alike(directory):
    check_same(worker_0(lambda value: value), directory)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            replaced(same_on_all_workers._versions()["tensorflow"], "2.0"),
            r'versions {"tensorflow": "2.0"}, but .*',
        ),
        (
            replaced(source_digest("colorsys"), "x"),
            r'checksums {"colorsys": "x"}, but .* install',
        ),
        (replaced(1, 4), r'devices {"CPU": 4}, but worker 0 has {"CPU": 1}: give every .* GPUs'),
        (
            lambda value: [*value, 8] if isinstance(value, list) and not value else value,
            r"newest checkpoint \[8\], but worker 0 has \[\]",
        ),
        (
            lambda value: [*value, "a = 1"] if isinstance(value, list) and value else value,
            r'configuration \["a = 1"\], but worker 0 has \[\]: give all workers the same command',
        ),
    ],
)
def test_what_differs_is_named(directory, change, text):
    gin.parse_config("import colorsys\nadam.beta_1 = 0.5")
    with pytest.raises(UserError, match=rf"worker 1 has .*{text}"):
        check_same(worker_0(change), directory)
    gin.clear_config()


@pytest.fixture
def fresh_digests():
    source_digest.cache_clear()
    yield
    source_digest.cache_clear()


@pytest.mark.usefixtures("fresh_digests")
def test_a_module_is_its_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    module, package = tmp_path / "my_schedule.py", tmp_path / "my_package"
    package.mkdir()
    module.write_text("a = 1\n")
    for name in ("__init__.py", "part.py"):
        (package / name).write_text("")
    names = ("my_schedule", "my_package.part", "no_such_module")
    first = list(map(source_digest, names))
    assert first[2] == "none"
    module.write_text("a = 2\n")
    (package / "part.py").write_text("b = 1\n")
    # What has been imported stays as it was.
    assert list(map(source_digest, names)) == first
    source_digest.cache_clear()
    again = list(map(source_digest, names))
    assert (again[0] == first[0], again[1] == first[1]) == (False, False)
