"""A folder of checkpoints that are there whole or not at all, whenever the writer was killed.

Or its machine lost: what a checkpoint needs is on the disk before the one before is given up.

    folder/step-<n>.data-*, step-<n>.index    a checkpoint; it is there when its index is
    folder/checkpoint                         TensorFlow's list of them, newest last
    folder/.partial/                          what is being written

TensorFlow's CheckpointManager keeps its list by the clock: where that was set back between two
starts, it forgets checkpoints that it should keep or delete. Here the names are the list.
"""

import os
import re
import shutil
from pathlib import Path

import tensorflow as tf

from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import read_at_most, sync

_INDEX = re.compile(r"step-(\d+)\.index", re.ASCII)
_DATA = re.compile(r"step-(\d+)\.data-\d{5}-of-\d{5}", re.ASCII)
_LISTED = re.compile(r'checkpoint_paths?: ".*?step-(\d+)"', re.ASCII)
_MOST_LIST_BYTES = 2**20
_PARTIAL = ".partial"
_PARTIAL_LIST = ".checkpoint.partial"
_UNREADABLE = ".unreadable"


class CheckpointFolder:
    """Writes checkpoints into a folder, and deletes those that are too many.

    Args:
        path: the folder; it need not exist.
        keep: how many are kept.
    """

    def __init__(self, path: Path, keep: int = 1) -> None:
        self.path = path
        self._keep = keep

    def steps(self) -> list[int]:
        """Returns the steps of the checkpoints that are there, ascending."""
        names = (_INDEX.fullmatch(path.name) for path in self.path.glob("*.index"))
        return sorted(int(name[1]) for name in names if name)

    def trained(self) -> list[int]:
        """Returns the steps of all checkpoints but that of step 0, ascending.

        A run that was stopped before its first update has one of step 0.
        """
        return [step for step in self.steps() if step]

    @property
    def newest(self) -> str | None:
        """The path of the newest checkpoint, see `prefix`, or None."""
        steps = self.steps()
        return self.prefix(steps[-1]) if steps else None

    def expected(self) -> list[int]:
        """Returns the steps of those that are there or should be, being listed; ascending."""
        return sorted({*self.steps(), *self._listed()})

    def half_copied(self) -> list[int]:
        """Returns the steps, ascending, of checkpoints that are not there whole but should be.

        They are listed, but have no index. Where there is neither a list nor an index, those that
        have data. (A killed writer may leave data, too, but it has listed the checkpoints before.)
        """
        # In this order: whoever writes and deletes at the same time does so in the other.
        data = {_DATA.fullmatch(path.name) for path in self.path.glob("step-*.data-*")}
        listed = self._listed()
        steps = self.steps()
        expected = listed if listed or steps else {int(name[1]) for name in data if name}
        oldest = min(steps, default=0)
        return sorted(
            step
            for step in expected - set(steps)
            if step > oldest and not self._unreadable(step).exists()
        )

    def _listed(self) -> set[int]:
        """Returns the steps of the checkpoints in TensorFlow's list in this folder."""
        try:
            text = read_at_most(self.path / "checkpoint", _MOST_LIST_BYTES).decode("utf-8")
        except (OSError, ValueError):
            return set()
        return {int(step) for step in _LISTED.findall(text)}

    def prefix(self, step: int) -> str:
        """Returns the path of a checkpoint as TensorFlow has it: without its files' endings."""
        return str(self.path / f"step-{step}")

    def write(self, checkpoint: tf.train.Checkpoint, step: int) -> None:
        """Writes a checkpoint, lists it, and deletes all but the last `keep` up to `step`.

        Raises:
            UserError: it cannot be written, as on a full disk; those written before are intact.
        """
        partial = self.path / _PARTIAL
        # Made on first use, and asked for by whoever restores.
        _ = checkpoint.save_counter
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            checkpoint.write(str(partial / f"step-{step}"))
            # The index last: with it the checkpoint is there.
            files = sorted(partial.glob(f"step-{step}.*"))
            # Before the one of this step that it replaces, if there is one, is given up.
            sync(*files)
            self._remove(step)
            for file in files:
                os.replace(file, self.path / file.name)
            partial.rmdir()
            # Before those that it replaces are deleted.
            sync(self.path)
            self._list_and_sweep(step)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise UserError(
                f"cannot write the checkpoint {self.prefix(step)} ({reason_of(error)}): make room "
                "or mend the permissions, then start again; those written before are intact."
            ) from error

    def set_aside(self, step: int) -> None:
        """Renames the index of a checkpoint that cannot be read, so that nobody reads it."""
        index = Path(f"{self.prefix(step)}.index")
        if index.exists():
            os.replace(index, self._unreadable(step))

    def _unreadable(self, step: int) -> Path:
        return Path(f"{self.prefix(step)}.index{_UNREADABLE}")

    def tidy(self) -> None:
        """Brings the folder to what a writer that was not killed would have left."""
        shutil.rmtree(self.path / _PARTIAL, ignore_errors=True)
        (self.path / _PARTIAL_LIST).unlink(missing_ok=True)
        steps = self.steps()
        if steps:
            self._list_and_sweep(steps[-1])
        for data in self.path.glob("step-*.data-*"):
            index = data.with_suffix(".index")
            if not index.exists() and not index.with_name(f"{index.name}{_UNREADABLE}").exists():
                data.unlink()

    def _list_and_sweep(self, newest: int) -> None:
        steps = self.steps()
        kept = [step for step in steps if step <= newest][-self._keep :]
        # TensorFlow's CheckpointState; names are relative to the folder, which can be moved.
        lines = [f'model_checkpoint_path: "step-{kept[-1]}"']
        lines += [f'all_model_checkpoint_paths: "step-{step}"' for step in kept]
        text, path = "\n".join(lines) + "\n", self.path / "checkpoint"
        if not path.exists() or path.read_bytes() != text.encode("ascii"):
            aside = self.path / _PARTIAL_LIST
            aside.write_text(text, encoding="ascii")
            os.replace(aside, path)
        for step in set(steps) - set(kept):
            self._remove(step)

    def _remove(self, step: int) -> None:
        Path(f"{self.prefix(step)}.index").unlink(missing_ok=True)
        for file in self.path.glob(f"step-{step}.*"):
            file.unlink()


def damage(path: str) -> str | None:
    """Reads a checkpoint whole, checksums included; returns why it cannot be read, or None."""
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (ValueError, IndexError, RuntimeError, MemoryError, tf.errors.OpError) as error:
        return reason_of(error)
    return None
