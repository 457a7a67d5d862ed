"""Chooses among the checkpoints of a model directory: averaged, best, latest, the last ones."""

from pathlib import Path

from t2t_repro.errors import UserError
from t2t_repro.runs.checkpoint_folder import CheckpointFolder

_FOLDERS = {"averaged": "averaged", "best": "best", "latest": "checkpoints"}


def find_checkpoint(model_dir: Path, name: str | None = None) -> str:
    """Finds a checkpoint.

    Args:
        model_dir: the model directory.
        name: "averaged", "best", "latest", the prefix of a checkpoint file such as
            "checkpoints/step-1000", or None for the first that exists of averaged, best, latest.

    Returns:
        its path without the endings of its files.

    Raises:
        UserError: it does not exist, or was copied in part.
    """
    names = [name] if name else [*_FOLDERS]
    for folder in (model_dir / _FOLDERS[one] for one in names if one in _FOLDERS):
        checkpoints = CheckpointFolder(folder)
        checkpoints.check_whole()
        if newest := checkpoints.newest:
            return newest
    if name and (model_dir / f"{name}.index").exists():
        return str(model_dir / name)
    raise UserError(
        f"no checkpoint {name or 'of any kind'} in {model_dir}, expected averaged, best or "
        "latest: train first, or give --checkpoint=averaged, best, latest or checkpoints/step-<n>."
    )


def last_checkpoints(folder: Path, count: int) -> dict[int, str]:
    """Returns the paths of a run's last `count` checkpoints by their steps, oldest first.

    Raises:
        UserError: there are fewer that updates have led to, or one was copied in part.
    """
    checkpoints = CheckpointFolder(folder)
    steps = checkpoints.trained()
    checkpoints.check_whole(since=min(steps[-count:], default=0))
    if not 1 <= count <= len(steps):
        raise UserError(
            f"cannot average {count} checkpoints of {folder}, which holds {len(steps)}: give "
            "--last between 1 and that, or train with a larger Checkpoints.keep."
        )
    return {step: checkpoints.prefix(step) for step in steps[-count:]}


def newer_than_average(model_dir: Path, checkpoint: str) -> str | None:
    """Returns the run's newest checkpoint if `checkpoint` is an average of older ones."""
    averaged, last = (CheckpointFolder(model_dir / name) for name in ("averaged", "checkpoints"))
    is_older = max(last.steps(), default=0) > max(averaged.steps(), default=0)
    return last.newest if is_older and checkpoint == averaged.newest else None
