"""The loop: where a run goes on, when it ends, and what it leaves behind."""

import contextlib
import dataclasses
import itertools
import math
import os
import signal
import time
from typing import Any, cast

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.batches import Batches
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.run_state import DevScores, RunState
from t2t_repro.training.schedule import TrainingSchedule
from t2t_repro.training.settings import CheckpointSettings, StepSettings, adam
from t2t_repro.training.signals import Interrupted
from t2t_repro.training.train_loop import TrainLoop
from t2t_repro.training.train_step import StepResult
from t2t_repro.training.workers import Workers
from tests.token_stores import random_pairs, write_token_store
from tests.training.test_metrics_log import curve
from tests.training.tiny import VOCAB, assert_same, state_of, tiny_step

SENTENCES = 20
USUAL_SCORES = (9.0, 0.0)


def finished(step, epoch, batch):
    """The state of a run whose only dev evaluation, after its last update, had `USUAL_SCORES`."""
    nll, score = USUAL_SCORES
    state = RunState(step, epoch, batch, score, nll, nll, evaluated_at=step)
    return dataclasses.replace(state, metric="BLEU", criterion="score")


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    pairs = random_pairs(SENTENCES, VOCAB, (2, 7))
    store = write_token_store(tmp_path_factory.mktemp("store") / "train", pairs, vocab_size=VOCAB)
    made = Batches(store, BatchSettings(38, max_shapes=2), seed=3, micro_batches=2)
    assert len(made.plan(0)) == len(made.plan(1)) == 4
    return made


class Meddling:
    """Batches; something happens when the batch for update `step` of this run is taken."""

    def __init__(self, batches, step, action):
        self._batches = batches
        self._action = {step: action}
        self._taken = 0
        self.count_tokens = batches.count_tokens

    def epoch(self, epoch, first_batch, own=None):
        for batch in self._batches.epoch(epoch, first_batch, own):
            self._taken += 1
            self._action.pop(self._taken, lambda: None)()
            yield batch


class CountingStep:
    """An update that only counts: it adds 1 to a weight, and records what it was given."""

    def __init__(self, losses=None):
        self.micro_batches = 2
        self.settings = StepSettings()
        self.own_micro_batches = range(2)
        self.seen = []
        self._losses = losses or {}
        self.model = keras.Sequential([keras.layers.Dense(1)])
        self.model.build((None, 1))
        self.optimizer = adam(learning_rate=0.1)
        self.optimizer.build(self.model.trainable_variables)
        self.average = MovingAverage(self.model.trainable_variables)

    def __call__(self, step, source, target, capacity, asks_to_stop):
        self.seen.append((step, np.asarray(source), np.asarray(target)))
        loss, norm = self._losses.get(step + 1, (2.0, 1.0))
        self.model.trainable_variables[0].assign_add([[1.0]])
        self.optimizer.iterations.assign_add(1)
        usable = float(np.isfinite(loss) and np.isfinite(norm))
        return StepResult(*map(tf.constant, (loss, loss, norm, 0.1, 0.0, usable)))

    def steps(self):
        return [step for step, *_ in self.seen]


class Run:
    """A run in `model_dir` with objects of its own, continued from the newest checkpoint."""

    def __init__(self, model_dir, step, batches, steps, scores=(), schedule=None, **checkpoints):
        self.step, self.model, self.optimizer = step, step.model, step.optimizer
        self._scores = itertools.chain(scores, itertools.repeat(USUAL_SCORES))
        self.evaluated = []
        self.directory = ModelDirectory(model_dir)
        self.checkpoints = Checkpoints(self.directory, step, CheckpointSettings(**checkpoints))
        self.schedule = TrainingSchedule(
            steps, **{"log_every": 1, "evaluate_every": 1000, **(schedule or {})}
        )
        self.batches = batches
        self.stopped_by = None

    def compute_share(self, preview=False):
        self.evaluated.append(float(self.model.trainable_variables[0].numpy().ravel()[0]))
        return next(self._scores)

    def scores(self, shares):
        nll, bleu = shares[0]
        return DevScores(nll, bleu, "| a |\n|---|\n| b |")

    def go(self):
        state, evaluation = self.checkpoints.restore(), cast(Any, self)
        self.checkpoints.tidy()
        callbacks = keras.callbacks.CallbackList(model=self.model)
        with MetricsLog(self.directory.tensorboard, self.schedule, state, callbacks) as log:
            loop = TrainLoop(
                self.step, self.batches, self.checkpoints, self.schedule, evaluation, Workers(), log
            )
            state = loop.run(state)
        self.stopped_by = loop.stopped_by
        return state


def written(model_dir, folder="checkpoints"):
    return sorted(int(path.stem.split("-")[1]) for path in (model_dir / folder).glob("*.index"))


def send(number):
    return lambda: os.kill(os.getpid(), number)


def kill():
    raise KeyboardInterrupt


# Stopping and going on


def restarted(step, initial):
    """Sets a TrainStep back to its beginning: tracing another one takes seconds."""
    variables = [*step.model.trainable_variables, *step.optimizer.variables]
    for variable, value in zip(variables, initial, strict=True):
        variable.assign(value)
    step.apply._all_usable.assign(True)
    return step


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, batches):
    """Six updates with dropout: an epoch of four batches and half of the next.

    Yields a function that makes the same run from its beginning, and the values at its end.
    """
    step = tiny_step(dropout=0.2, micro_batches=2)
    initial = state_of(step)

    def begin(model_dir, batches, steps=6, **options):
        return Run(model_dir, restarted(step, initial), batches, steps, **options)

    run = begin(tmp_path_factory.mktemp("run"), batches)
    assert run.go() == finished(step=6, epoch=1, batch=2)
    return begin, state_of(run)


@pytest.mark.parametrize(
    ("at", "number"), [(3, signal.SIGTERM), (4, signal.SIGINT)], ids=["mid-epoch", "epoch's end"]
)
def test_stopped_and_resumed_is_uninterrupted(tmp_path, batches, uninterrupted, at, number):
    """Bit for bit, dropout included."""
    begin, end = uninterrupted
    handler = signal.getsignal(number)
    first = begin(tmp_path, Meddling(batches, at, send(number)))
    assert first.go() == RunState(step=at, batch=at)
    assert first.stopped_by == number
    assert signal.getsignal(number) == handler
    assert written(tmp_path) == [at]
    second = begin(tmp_path, batches)
    assert second.go() == finished(step=6, epoch=1, batch=2)
    assert_same(state_of(second), end)
    assert written(tmp_path) == [at, 6]


def test_killed_and_resumed_repeats_what_was_lost(tmp_path, batches, uninterrupted):
    """Killed at update 4, with the last checkpoint at 2."""
    begin, end = uninterrupted
    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path, Meddling(batches, 4, kill), every_steps=2).go()
    assert written(tmp_path) == [2]
    # TensorBoard reads files in the order of their names: the second, then a counter.
    time.sleep(1)
    second = begin(tmp_path, batches, every_steps=2)
    assert second.go().step == 6
    assert_same(state_of(second), end)
    assert written(tmp_path) == [2, 4, 6]
    losses = [step for step, _ in curve(tmp_path / "tensorboard", "train/loss")]
    assert losses == [1, 2, 3, 4, 5, 6]


def test_stopped_while_an_epoch_is_prepared(tmp_path, batches, uninterrupted):
    """The second one; a signal to all processes ends those that prepare it too."""
    begin, end = uninterrupted

    class Waiting:
        count_tokens = batches.count_tokens

        def epoch(self, epoch, first_batch, own=None):
            if epoch == 0:
                return batches.epoch(epoch, first_batch, own)
            with contextlib.suppress(Interrupted):
                send(signal.SIGTERM)()
                time.sleep(60)
            raise UserError("a worker process was killed")

    first = begin(tmp_path, Waiting())
    assert first.go() == RunState(step=4, epoch=1)
    assert first.stopped_by == signal.SIGTERM
    second = begin(tmp_path, batches)
    assert second.go() == finished(step=6, epoch=1, batch=2)
    assert_same(state_of(second), end)


@pytest.mark.parametrize("at", [4, 6])
def test_an_evaluation_that_a_signal_interrupts_is_made_by_the_run_that_goes_on(
    tmp_path, batches, at, monkeypatch
):
    """There is no time to finish it; the last one of the run too."""
    schedule = {"evaluate_every": 2}
    scores = [(4.0, 10.0), (3.0, 12.0), (3.5, 11.0)]
    end = Run(tmp_path / "whole", CountingStep(), batches, 6, scores, schedule).go()
    first = Run(tmp_path / "cut", CountingStep(), batches, 6, scores[: at // 2 - 1], schedule)
    take_share = first.compute_share

    def share(preview=False):
        updates = int(first.optimizer.iterations.numpy())
        return send(signal.SIGTERM)() if updates == at else take_share()

    monkeypatch.setattr(first, "compute_share", share)
    state = first.go()
    assert (state.step, state.awaits_evaluation, first.stopped_by) == (at, True, signal.SIGTERM)
    # TensorBoard reads files in the order of their names: the second, then a counter.
    time.sleep(1)
    second = Run(tmp_path / "cut", CountingStep(), batches, 6, scores[at // 2 - 1 :], schedule)
    assert (second.go(), second.stopped_by) == (end, None)
    for name in ("dev/nll", "dev/bleu", "train/loss", "train/padding_share"):
        whole, cut = (curve(tmp_path / run / "tensorboard", name) for run in ("whole", "cut"))
        assert whole == cut
    padding = 1 - batches.count_tokens(0, 0) / np.sum(2 * next(iter(batches.epoch(0, 0))).capacity)
    assert whole[0] == (1, pytest.approx(padding))


@pytest.mark.parametrize("stopped", [False, True])
def test_previews_are_logged_and_change_nothing(tmp_path, batches, caplog, monkeypatch, stopped):
    """A signal ends the run within one, too."""
    scores = [(4.0, 10.0)]
    plain = Run(tmp_path / "plain", CountingStep(), batches, 4, scores).go()
    schedule = {"preview_at": (2, 4)}
    run = Run(tmp_path / "previews", CountingStep(), batches, 4, [(5.0, 0.0), *scores], schedule)
    if stopped:
        monkeypatch.setattr(run, "compute_share", lambda preview=False: send(signal.SIGTERM)())
        assert run.go() == RunState(step=2, batch=2)
        run = Run(tmp_path / "previews", CountingStep(), batches, 4, scores, schedule)
    with caplog.at_level("INFO", logger="absl"):
        assert run.go() == plain
    curves = [(4, 4.0)] if stopped else [(2, 5.0), (4, 4.0)]
    assert curve(tmp_path / "previews" / "tensorboard", "dev/nll") == curves
    shown = [line.partition(":")[0] for line in caplog.messages if line.endswith("\n| b |")]
    assert shown == [f"step {step}" for step, _ in curves]


def test_a_run_goes_through_the_plan(tmp_path, batches):
    """Two epochs, batch by batch."""
    run = Run(tmp_path, CountingStep(), batches, 8)
    # Where an epoch ends, the state before and after it is the same place.
    assert run.go() == finished(step=8, epoch=1, batch=4)
    assert run.step.steps() == list(range(8))
    planned = [batch for epoch in (0, 1) for batch in batches.epoch(epoch, 0)]
    for (_, *seen), (*expected, _) in zip(run.step.seen, planned, strict=True):
        for ids, others in zip(seen, expected, strict=True):
            np.testing.assert_array_equal(ids, others)


# Gradients that are not usable


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path, batches, uninterrupted):
    begin, end = uninterrupted

    def poison():
        weight = run.model.trainable_variables[1]
        weight.assign(np.full(weight.shape, np.nan))

    options: Any = {"every_steps": 2, "schedule": {"evaluate_every": 4}, "scores": [(3.0, 9.0)]}
    run = begin(tmp_path, Meddling(batches, 6, poison), 20, **options)
    with pytest.raises(
        UserError, match=r"the loss is nan .* step 6 \(epoch 1, batch 1\), .*: .*step-4"
    ):
        run.go()
    assert (written(tmp_path), written(tmp_path, "best")) == ([2, 4], [4])
    # The run that goes on ends as if nothing had happened.
    again = begin(tmp_path, batches)
    assert again.go().step == 6
    assert_same(state_of(again), end)


@pytest.mark.parametrize(
    ("bad", "number"), [((math.nan, 1.0), None), ((2.0, math.inf), signal.SIGTERM)]
)
def test_nothing_bad_is_written(tmp_path, batches, bad, number):
    """Not at the first update, not where a checkpoint is due, not after a signal."""
    meddling = Meddling(batches, 1, send(number) if number else lambda: None)
    run = Run(tmp_path, CountingStep({1: bad}), meddling, 1, every_steps=1)
    with pytest.raises(UserError, match=r"step 1 \(epoch 0, batch 0\)"):
        run.go()
    assert written(tmp_path) == []


# Dev evaluations and checkpoints


@pytest.mark.parametrize(("criterion", "best", "stops"), [("score", 6, 10), ("nll", 4, 8)])
def test_best_checkpoint_and_patience_go_by_one_criterion(
    tmp_path, batches, criterion, best, stops
):
    #          better nll   better both  only BLEU    neither      neither
    scores = [(4.0, 10.0), (3.0, 11.0), (3.5, 12.0), (3.1, 11.5), (3.2, 11.6), (0.0, 99.0)]
    schedule = {"evaluate_every": 2, "patience": 2, "criterion": criterion}
    run = Run(tmp_path, CountingStep(), batches, 100, scores, schedule, every_steps=3, keep=2)
    state = run.go()
    start = run.evaluated[0] - 2
    # After every second update, with the weights after it.
    assert run.evaluated == pytest.approx([start + step for step in range(2, stops + 1, 2)])
    assert (state.step, state.stale) == (stops, 2)
    assert (state.best_score, state.best_nll) == (12.0, 3.0)
    assert written(tmp_path, "best") == [best]
    # The run that goes on is out of patience too.
    again = Run(tmp_path, CountingStep(), batches, 100, scores, schedule)
    assert again.go() == state
    assert again.step.seen == []


def test_evaluation_comes_before_the_checkpoint_of_the_same_update(tmp_path, batches):
    run = Run(
        tmp_path, CountingStep(), batches, 2, [(4.0, 10.0)], {"evaluate_every": 2}, every_steps=2
    )
    state = run.go()
    assert state.best_score == 10.0
    assert Run(tmp_path, CountingStep(), batches, 2).checkpoints.restore() == state


# The end of a run


@pytest.mark.parametrize(("steps", "evaluated"), [(4, [2, 4]), (5, [2, 4, 5])])
def test_the_last_updates_are_judged_once(tmp_path, batches, steps, evaluated):
    """By a run that is started again, too."""
    scores = [(4.0, 10.0 + number) for number in range(len(evaluated))]
    run = Run(tmp_path, CountingStep(), batches, steps, scores, {"evaluate_every": 2})
    end = run.go()
    assert (end.best_score, end.evaluated_at) == (scores[-1][1], steps)
    assert [step for step, _ in curve(tmp_path / "tensorboard", "dev/nll")] == evaluated
    assert written(tmp_path, "best") == [steps]
    again = Run(tmp_path, CountingStep(), batches, steps, schedule={"evaluate_every": 2})
    assert again.go() == end
    assert again.evaluated == []
