"""Folders of checkpoints; `ModelDirectory.checkpoint` chooses one.

Each checkpoint exists whole or not at all, whenever the writer is killed.

    folder/step-<n>.data-*, step-<n>.index    a checkpoint; it exists if its index does
    folder/checkpoint                         TensorFlow's list of them, newest last
    folder/.partial/                          the one that is being written

A new checkpoint is on the disk before an older one is deleted, one of the same step just before the
new one takes its name. TensorFlow's CheckpointManager orders checkpoints by the clock, and loses
some when the clock is set back; here their names do.
"""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import sync, write_whole

if TYPE_CHECKING:
    import tensorflow as tf

_INDEX = re.compile(r"step-(\d+)\.index", re.ASCII)
# Matches both kinds of line, model_checkpoint_path and all_model_checkpoint_paths.
_LISTED = re.compile(r'checkpoint_paths?: ".*?step-(\d+)"', re.ASCII)
_PARTIAL = ".partial"


class CheckpointFolder:
    """A folder of checkpoints, in which only the last `keep` are kept.

    Args:
        path: of the folder, which need not exist.
        keep: number of checkpoints that `write` and `tidy` keep.
    """

    def __init__(self, path: Path, keep: int = 1) -> None:
        self.path = path
        self._keep = keep

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, ascending."""
        matches = (_INDEX.fullmatch(path.name) for path in self.path.glob("*.index"))
        return sorted(int(match[1]) for match in matches if match)

    def trained_steps(self) -> list[int]:
        """Returns the steps of all checkpoints except step 0, ascending.

        A run that was stopped before its first update has a checkpoint of step 0.
        """
        return [step for step in self.steps() if step]

    def expected_steps(self) -> list[int]:
        """Returns the steps of checkpoints that exist or are in TensorFlow's list, ascending."""
        return sorted(self._steps_in_list() | {*self.steps()})

    @property
    def newest(self) -> str | None:
        """The path of the newest checkpoint, see `prefix`, or None."""
        steps = self.steps()
        return self.prefix(steps[-1]) if steps else None

    def prefix(self, step: int) -> str:
        """Returns the path of a checkpoint without the endings of its files."""
        return str(self.path / f"step-{step}")

    def check_whole(self, since: int | None = None) -> None:
        """Checks that no checkpoint newer than `since` was copied in part.

        Such a checkpoint is listed, but has no index, not even one that `set_aside` has renamed.

        Args:
            since: the step after which checkpoints are checked; the newest one's by default.

        Raises:
            UserError: a newer checkpoint has no index.
        """
        # The list first: a running trainer lists a checkpoint only after it has written it.
        listed, steps = self._steps_in_list(), self.steps()
        since = max(steps, default=-1) if since is None else since
        for step in sorted(listed - {*steps}, reverse=True):
            if step > since and not _unreadable_index(self.prefix(step)).exists():
                problem = f"{self.prefix(step)}.index is missing: copy {self.path} again, whole"
                others = "averaged, best, latest, checkpoints/step-<n>"
                raise UserError(f"{problem}, or give another --checkpoint ({others}) or --last.")

    def last(self, count: int) -> dict[int, str]:
        """Returns the paths of the last `count` checkpoints by step, the oldest first.

        All are returned if there are fewer. A checkpoint of step 0 does not count.

        Raises:
            UserError: there are no checkpoints, one was copied in part, or `count` is below 1.
        """
        steps = self.trained_steps()
        # If there are fewer, any that is listed may be one of them: all are checked.
        oldest = steps[-count] if 0 < count <= len(steps) else -1
        self.check_whole(since=oldest)
        if count < 1 or not steps:
            problem = f"cannot average {count} checkpoints of {self.path}, which holds {len(steps)}"
            raise UserError(f"{problem}: give --last=1 or more, or train first.")
        return {step: self.prefix(step) for step in steps[-count:]}

    def write(self, checkpoint: "tf.train.Checkpoint", step: int) -> None:
        """Writes and lists a checkpoint, and deletes all but the last `keep` up to `step`.

        Raises:
            UserError: the disk is full or fails; earlier checkpoints are intact.
        """
        import tensorflow as tf  # Takes seconds to import.

        partial = self.path / _PARTIAL
        # TensorFlow creates this counter on first use, and expects it when it restores.
        _ = checkpoint.save_counter
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            checkpoint.write(str(partial / f"step-{step}"))
            # Sorted, the index comes last, as in "step-1.data-00000-of-00001", "step-1.index": with
            # it the checkpoint exists.
            files = sorted(partial.glob(f"step-{step}.*"))
            sync(*files)
            self._remove(step)  # An older one of the same step.
            for file in files:
                os.replace(file, self.path / file.name)
            partial.rmdir()
            sync(self.path)
            self._list_and_sweep(step)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            problem = f"cannot write the checkpoint {self.prefix(step)} ({reason_of(error)})"
            fix = "make room or fix the permissions, then start again; earlier ones are intact"
            raise UserError(f"{problem}: {fix}.") from error

    def tidy(self) -> None:
        """Removes leftovers of an interrupted write, and all but the last `keep` checkpoints."""
        shutil.rmtree(self.path / _PARTIAL, ignore_errors=True)
        if steps := self.steps():
            self._list_and_sweep(steps[-1])
        for data in self.path.glob("step-*.data-*"):
            # Data belong to an index, which `set_aside` may have renamed.
            if not any(self.path.glob(f"{data.stem}.index*")):
                data.unlink()

    def _steps_in_list(self) -> set[int]:
        """Returns the steps in TensorFlow's list, none if there is no list."""
        try:
            text = (self.path / "checkpoint").read_text()
        except FileNotFoundError:
            return set()
        return {int(step) for step in _LISTED.findall(text)}

    def _list_and_sweep(self, newest: int) -> None:
        """Lists the last `keep` checkpoints up to `newest`, and deletes all others.

        Args:
            newest: the step of a checkpoint that exists. Newer ones are deleted, too.
        """
        steps = self.steps()
        kept = [step for step in steps if step <= newest][-self._keep :]
        # TensorFlow's CheckpointState; the names are relative, so that the folder can be moved.
        lines = [f'model_checkpoint_path: "step-{kept[-1]}"\n']
        lines += [f'all_model_checkpoint_paths: "step-{step}"\n' for step in kept]
        write_whole(self.path / "checkpoint", "".join(lines).encode("ascii"))
        for step in {*steps} - {*kept}:
            self._remove(step)

    def _remove(self, step: int) -> None:
        """Deletes a checkpoint, its index first: without it the checkpoint does not exist."""
        Path(f"{self.prefix(step)}.index").unlink(missing_ok=True)
        for file in self.path.glob(f"step-{step}.*"):
            file.unlink()


def find_damage(path: str) -> str | None:
    """Reads a whole checkpoint, checksums included; returns why it cannot be read, or None."""
    import tensorflow as tf  # Takes seconds to import.

    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (ValueError, IndexError, RuntimeError, MemoryError, tf.errors.OpError) as error:
        return reason_of(error)
    return None


def set_aside(path: str) -> None:
    """Renames the index of an unreadable checkpoint, so that it is not used any more."""
    with suppress(FileNotFoundError):  # A listed checkpoint may lack its index.
        os.replace(f"{path}.index", _unreadable_index(path))


def _unreadable_index(path: str) -> Path:
    """Returns the path of the renamed index of a checkpoint that was set aside."""
    return Path(f"{path}.index.unreadable")


def newer_than_average(model_dir: Path, checkpoint: str) -> str | None:
    """Returns the run's newest checkpoint if `checkpoint` averages older ones, else None."""
    averaged = CheckpointFolder(model_dir / "averaged")
    trained = CheckpointFolder(model_dir / "checkpoints")
    is_outdated = max(trained.steps(), default=0) > max(averaged.steps(), default=0)
    return trained.newest if is_outdated and checkpoint == averaged.newest else None
