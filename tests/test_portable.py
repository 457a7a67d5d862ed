"""Training runs without what macOS lacks."""

import os
import re
import subprocess
import sys

import pytest

from tests.processes import CHECKOUT

pytestmark = pytest.mark.slow

# Python reads it at its start, in every process; what the standard library and TensorFlow use
# themselves is left to them.
SITE = """
import builtins, os, select, signal, sys

for module, names in {
    os: "sched_getaffinity sched_setaffinity posix_fallocate posix_fadvise memfd_create eventfd "
        "pidfd_open splice copy_file_range fdatasync pipe2 getxattr setxattr O_DIRECT O_TMPFILE",
    signal: "sigtimedwait sigwaitinfo pidfd_send_signal",
    select: "epoll",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

imported = builtins.__import__

def is_ours(frame):
    return frame.f_globals.get("__name__", "").split(".")[0] in ("t2t_repro", "__main__")

def refuse(name, globals=None, *rest, **named):
    importer = (globals or {}).get("__name__", "")
    if name in ("fcntl", "resource") and importer.startswith("t2t_repro"):
        raise ModuleNotFoundError(f"no {name}")
    return imported(name, globals, *rest, **named)

def refuse_files(event, arguments):
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/", "/dev/shm")):
        frame = sys._getframe(1)
        while frame and frame.f_globals.get("__name__", "").split(".")[0] in ("pathlib", "io"):
            frame = frame.f_back
        if frame and is_ours(frame):
            raise FileNotFoundError(2, "No such file or directory", arguments[0])

builtins.__import__ = refuse
sys.addaudithook(refuse_files)
"""

EVERYTHING = """
import importlib, os, pkgutil, sys, t2t_repro
from pathlib import Path

def main():
    for module in pkgutil.walk_packages(t2t_repro.__path__, "t2t_repro."):
        importlib.import_module(module.name)
    from t2t_repro import trainer
    from t2t_repro.data import prepared
    from t2t_repro.data.parallel import default_workers
    from t2t_repro.decoding.batch_plan import available_memory

    try:
        Path("/proc/meminfo").read_text()
    except FileNotFoundError:
        print("cores", default_workers(), "memory", available_memory())
    # Few sentences are cleaned by several processes.
    prepared.PAIRS_IN_BLOCK = 50
    sys.argv[:] = ["trainer", *sys.argv[1:]]
    trainer.cli()

if __name__ == "__main__":
    main()
"""

BINDINGS = (
    "GeneratedCorpus.train_size = 400", "GeneratedCorpus.dev_size = 20",
    "GeneratedCorpus.test_size = 20", "SubwordTraining.vocab_size = 400", "prepare.workers = 2",
    "LayerConfig.d_model = 16", "LayerConfig.d_ff = 16", "Batches.tokens_per_batch = 512",
    "Batches.max_shapes = 1", "TrainingSchedule.steps = 2", "TrainingSchedule.evaluate_every = 2",
)  # fmt: skip


def test_everything_runs_without_what_only_linux_has(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SITE)
    (tmp_path / "everything.py").write_text(EVERYTHING)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT}"}
    flags = ["--gin_file=quickstart.gin", "--model_dir=model", "--data_dir=data"]
    flags += [f"--gin_param={binding}" for binding in BINDINGS]
    command = [sys.executable, "everything.py", *flags]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"cores (\d+) memory (\d+)\n", done.stdout)
    assert found, done.stdout
    assert 1 <= int(found[1]) <= (os.cpu_count() or 1)
    assert int(found[2]) > 10**7
    assert (tmp_path / "model" / "checkpoints" / "step-2.index").is_file()
