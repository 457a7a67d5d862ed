"""What a run says of its model, before its first update, and after its last."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from absl import logging

from t2t_repro.durations import in_words
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.run_state import RunState, TrainingSchedule
from t2t_repro.training.train_step import TrainStep

_PAPER_AVERAGES = 5  # Checkpoints of the base model (section 6.1).


def announce_model(step: TrainStep) -> None:
    """Says how large a model is, what of it is updated, and on how many devices.

    Args:
        step: its update.
    """
    logging.info(
        f"train: {step.model.count_params():,} parameters; replicas: "
        f"{step.strategy.num_replicas_in_sync}; slices a batch: {step.micro_batches}; XLA: "
        f"{'on' if step.jit_compile else 'off'}"
    )
    if step.frozen:
        left = sum(weight.shape.num_elements() for weight in step.updated)
        logging.info(f"train: frozen: {', '.join(step.frozen)}; {left:,} parameters are updated")


def announce_start(
    directory: ModelDirectory, pace: TrainingSchedule, state: RunState, differing: Sequence[str]
) -> None:
    """Says where a run goes on, or why it does not.

    Args:
        directory: of the model.
        pace: of the run.
        state: where it stands.
        differing: what is configured otherwise than when it got there.
    """
    # One that was stopped before its first update has a checkpoint of what it began with.
    if not state.step and not directory.has_begun():
        return
    if not pace.is_over(state):
        logging.info("train: going on after step %d", state.step)
    elif state.step >= pace.steps:
        logging.info(
            f"train: finished already, after step {state.step}; to train longer, bind "
            f"TrainingSchedule.steps to more than {state.step}"
        )
    else:
        logging.info(
            f"train: finished already, after step {state.step}, for want of patience: dev "
            f"{state.judged_by} has not improved in {state.stale} evaluations; to train longer, "
            f"bind TrainingSchedule.patience to more than {state.stale}, or to None"
        )
    going_on = "the run had" if pace.is_over(state) else "going on with"
    for difference in differing:
        logging.warning("train: %s another configuration: %s", going_on, difference)
    is_longer = all(difference.startswith("TrainingSchedule.") for difference in differing)
    if pace.is_over(state) or not is_longer:
        logging.info(
            "train: to start from this model's weights with a fresh optimizer, on other data or "
            f"the same, give another --model_dir with {directory.as_parent()}"
        )


def announce_end(
    directory: ModelDirectory, data_dir: Path, start: RunState, end: RunState, seconds: float
) -> None:
    """Says that a run is finished, how good its model is, and what to do next.

    Args:
        directory: of the model.
        data_dir: of its data.
        start: where the run stood when this process began.
        end: where it stands now.
        seconds: from the one to the other.
    """
    updates = end.step - start.step
    if not updates:
        return
    how_many = f"the last {updates:,} of {end.step:,}" if start.step else f"{updates:,}"
    logging.info(
        f"train: finished {how_many} steps in {in_words(seconds)}; next: "
        f"{', then '.join(_next_commands(directory, data_dir))}"
    )


def _next_commands(directory: ModelDirectory, data_dir: Path) -> list[str]:
    model = f"--model_dir={shlex.quote(str(directory.path))}"
    is_usual = data_dir == directory.path.parent / "data"
    data = "" if is_usual else f" --data_dir={shlex.quote(str(data_dir))}"
    evaluate = f"python -m t2t_repro.evaluate {model}{data}"
    last = min(len(CheckpointFolder(directory.checkpoints).trained()), _PAPER_AVERAGES)
    if last < 2:
        return [evaluate]
    return [f"python -m t2t_repro.average {model} --last={last}", evaluate]
