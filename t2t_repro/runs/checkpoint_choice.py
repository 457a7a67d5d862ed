"""Which of a model directory's checkpoints are used: averaged, best, latest, a run's last."""

import shutil
from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.weights import save_weights


class CheckpointChoice:
    """Chooses among the checkpoints of a model directory, and replaces the averaged one.

    Args:
        checkpoints: the folder of the run's last ones.
        best: the folder of the one with the best dev score.
        averaged: the folder of the one that `average` wrote.
    """

    def __init__(self, checkpoints: Path, best: Path, averaged: Path) -> None:
        self.checkpoints, self.best, self.averaged = checkpoints, best, averaged
        self._before = averaged.with_name(".averaged.before")

    def find(self, name: str | None = None) -> str:
        """Finds a checkpoint.

        Args:
            name: "averaged", "best", "latest", the prefix of a checkpoint file such as
                "checkpoints/step-1000", or None for the first there is of averaged, best, latest.

        Returns:
            its path, as TensorFlow writes it: without the endings of its files.

        Raises:
            UserError: there is none; or one that would come first is not there whole.
        """
        named = {"averaged": self.averaged, "best": self.best, "latest": self.checkpoints}
        for path in named.values() if name is None else filter(None, [named.get(name)]):
            if newest := self._newest_whole(path):
                return newest
        there = self.checkpoints.parent
        if name and (there / f"{name}.index").exists():
            return str(there / name)
        raise UserError(
            f"no checkpoint {name or 'of any kind'} in {there}, expected averaged, best or "
            "latest: train first, or give --checkpoint=averaged, best, latest or "
            "checkpoints/step-<n>."
        )

    def _newest_whole(self, path: Path) -> str | None:
        """The newest checkpoint of a folder; None where there was never one."""
        folder = CheckpointFolder(path)
        # Before it is looked at what is whole: a writer may be at work.
        half_copied = folder.half_copied()
        newest = max(folder.steps(), default=-1)
        if half_copied and half_copied[-1] > newest:
            raise _not_whole(f"{folder.prefix(half_copied[-1])}.index is missing", path)
        if newest < 0 and path == self.averaged:
            # It is put in its place whole, the one before being moved away.
            if path.exists():
                raise _not_whole(f"{path} has no checkpoint", path)
            if self._before.exists():
                raise _not_whole(f"{path} was being replaced", path)
        return None if newest < 0 else folder.prefix(newest)

    def newer_than_average(self, checkpoint: str) -> str | None:
        """Returns the run's newest checkpoint if `checkpoint` is an average of older ones."""
        averaged, last = CheckpointFolder(self.averaged), CheckpointFolder(self.checkpoints)
        is_stale = max(last.steps(), default=0) > max(averaged.steps(), default=0)
        return last.newest if is_stale and checkpoint == averaged.newest else None

    def last(self, count: int) -> dict[int, str]:
        """Returns the run's last `count` checkpoints, oldest first: their paths by their steps.

        Only those that updates have led to; see `CheckpointFolder.trained`.

        Raises:
            UserError: there are fewer, or one of them is not there whole.
        """
        folder = CheckpointFolder(self.checkpoints)
        half_copied, steps = folder.half_copied(), folder.trained()
        for step in half_copied:
            if step > min(steps[-count:], default=0):
                raise _not_whole(f"{folder.prefix(step)}.index is missing", folder.path)
        if not 1 <= count <= len(steps):
            raise UserError(
                f"cannot average {count} checkpoints of {folder.path}, which holds {len(steps)}: "
                "give --last between 1 and that, or train with a larger Checkpoints.keep."
            )
        return {step: folder.prefix(step) for step in steps[-count:]}

    def write_averaged(self, model: Transformer, step: int) -> Path:
        """Writes the model as the averaged one, in place of the one before."""
        aside, before = self.averaged.with_name(".averaged.partial"), self._before
        for left_behind in (aside, before):
            shutil.rmtree(left_behind, ignore_errors=True)
        save_weights(model, aside, step)
        if self.averaged.exists():
            self.averaged.rename(before)
        aside.rename(self.averaged)
        shutil.rmtree(before, ignore_errors=True)
        return self.averaged


def _not_whole(what: str, folder: Path) -> UserError:
    """The error for a checkpoint copied in part: another would be used silently in its place."""
    mend = f"average again (python -m t2t_repro.average --model_dir={folder.parent}), "
    return UserError(
        f"{what}: {'' if folder.name != 'averaged' else mend}copy {folder} again, whole, or give "
        "another --checkpoint (averaged, best, latest or checkpoints/step-<n>)."
    )
