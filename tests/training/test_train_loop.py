"""The loop: where a run goes on, when it ends, and what it leaves behind."""

import contextlib
import dataclasses
import itertools
import math
import os
import signal
import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.data.batches import Batches, BatchSettings
from t2t_repro.errors import UserError
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.metrics_log import MetricsLog
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.optimizer import LARGEST_NORM, adam
from t2t_repro.training.replay import read_batch
from t2t_repro.training.run_state import DevScores, RunState, TrainingSchedule
from t2t_repro.training.signals import Preempted
from t2t_repro.training.train_loop import TrainLoop
from t2t_repro.training.train_step import StepResult
from t2t_repro.training.workers import Workers
from tests.text.segmentations import Doubled
from tests.token_stores import write_token_store
from tests.training.test_event_files import curve
from tests.training.tiny import VOCAB, assert_same, tiny_step

SENTENCES = 20
USUAL_SCORES = (9.0, 0.0)


def finished(step, epoch, batch):
    """The state of a run whose only dev evaluation found `USUAL_SCORES` after its last update."""
    nll, score = USUAL_SCORES
    return judged(RunState(step, epoch, batch, best_score=score, best_nll=nll, evaluated_at=step))


def judged(state):
    return dataclasses.replace(state, metric="BLEU", criterion="score")


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    rng = np.random.default_rng(0)

    def sentence():
        return [*rng.integers(2, VOCAB, rng.integers(2, 7)).tolist(), 1]

    pairs = [(sentence(), sentence()) for _ in range(SENTENCES)]
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

    def epoch(self, epoch, first_batch, own_slices=None):
        for batch in self._batches.epoch(epoch, first_batch, own_slices):
            self._taken += 1
            self._action.pop(self._taken, lambda: None)()
            yield batch


class FakeStep:
    """An update that only counts: it adds 1 to a weight, and records what it was given."""

    def __init__(self, losses=None):
        self.micro_batches = 2
        self.own_slices = range(2)
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
        usable = float(np.isfinite(loss) and norm <= LARGEST_NORM)
        return StepResult(*map(tf.constant, (loss, loss, 5.0, norm, 0.1, 0.0, usable)))


class Run:
    """A run in `model_dir` with objects of its own, gone on with from the newest checkpoint."""

    def __init__(self, model_dir, step, batches, steps, scores=(), pace=None, **checkpoints):
        self.step = step
        self.found = itertools.chain(scores, itertools.repeat(USUAL_SCORES))
        self.evaluated = []
        self.directory = ModelDirectory(model_dir)
        self.checkpoints = Checkpoints(self.directory, step.model, step.optimizer, **checkpoints)
        self.pace = TrainingSchedule(
            steps, **{"log_every": 1, "evaluate_every": 1000, **(pace or {})}
        )
        self.batches = batches
        self.stopped_by = None

    def share(self):
        self.evaluated.append(float(self.step.model.trainable_variables[0].numpy().ravel()[0]))
        return next(self.found)

    def scores(self, shares):
        nll, bleu = shares[0]
        return DevScores(nll, bleu, "| a |")

    def weight(self):
        """The updates that a FakeStep has made."""
        return round(float(self.step.optimizer.iterations.numpy()))

    def go(self):
        state = self.checkpoints.restore()
        self.checkpoints.tidy()
        workers = Workers()
        with MetricsLog(self.directory.tensorboard, self.pace, state) as journal:
            loop = TrainLoop(
                self.step, self.batches, self.checkpoints, self.pace, self, workers, journal
            )
            state = loop.run(state)
        self.stopped_by = loop.stopped_by
        return state

    def values(self):
        """Weights and the optimizer's state."""
        variables = [*self.step.model.trainable_variables, *self.step.optimizer.variables]
        return [keras.ops.convert_to_numpy(variable.value).copy() for variable in variables]


def written(model_dir, folder="checkpoints"):
    return sorted(int(path.stem.split("-")[1]) for path in (model_dir / folder).glob("*.index"))


def send(number):
    return lambda: os.kill(os.getpid(), number)


# Stopping and going on


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, batches):
    """Six updates with dropout: an epoch of four batches and half of the next.

    Yields a function that makes the same run from its beginning, and the values at its end.
    """
    step = tiny_step(dropout=0.2, micro_batches=2)
    variables = [*step.model.trainable_variables, *step.optimizer.variables]
    initial = [keras.ops.convert_to_numpy(variable.value).copy() for variable in variables]

    def begin(model_dir, batches, steps=6, **options):
        for variable, value in zip(variables, initial, strict=True):
            variable.assign(value)
        return Run(model_dir, step, batches, steps, **options)

    run = begin(tmp_path_factory.mktemp("run"), batches)
    assert run.go() == finished(step=6, epoch=1, batch=2)
    return begin, run.values()


def test_stopped_and_resumed_is_uninterrupted(tmp_path, batches, uninterrupted):
    """Bit for bit, dropout included, with new objects and another initialisation."""
    begin, end = uninterrupted
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    first = begin(tmp_path, Meddling(batches, 3, send(signal.SIGTERM)))
    assert first.go() == RunState(step=3, batch=3)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert written(tmp_path) == [3]
    second = Run(tmp_path, tiny_step(dropout=0.2, micro_batches=2), batches, 6)
    second.step.model.set_weights([0 * w for w in second.step.model.get_weights()])
    assert second.go() == finished(step=6, epoch=1, batch=2)
    assert_same(second.values(), end)
    assert written(tmp_path) == [3, 6]


@pytest.mark.parametrize("at", [4, 6])
def test_stopped_in_an_evaluation_it_is_made_by_the_run_that_goes_on(
    tmp_path, batches, at, monkeypatch
):
    """There is no time to finish it; also the last one of the run."""
    pace = {"evaluate_every": 2}
    scores = [(4.0, 10.0), (3.0, 12.0), (3.5, 11.0)]
    expected = Run(tmp_path / "whole", FakeStep(), batches, 6, scores, pace)
    end = expected.go()
    first = Run(tmp_path / "cut", FakeStep(), batches, 6, scores[: at // 2 - 1], pace)
    take_share = first.share

    def share():
        return send(signal.SIGTERM)() if first.weight() == at else take_share()

    monkeypatch.setattr(first, "share", share)
    state = first.go()
    assert (state.step, state.awaits_evaluation) == (at, True)
    assert first.stopped_by == signal.SIGTERM
    second = Run(tmp_path / "cut", FakeStep(), batches, 6, scores[at // 2 - 1 :], pace)
    assert second.go() == end
    assert second.stopped_by is None
    for name in ("dev/nll", "dev/bleu", "train/loss"):
        assert curve(tmp_path / "cut" / "tensorboard", name) == curve(
            tmp_path / "whole" / "tensorboard", name
        )
    assert Run(tmp_path / "cut", FakeStep(), batches, 6).checkpoints.restore() == end


def test_stopped_right_before_the_epoch_ends(tmp_path, batches, uninterrupted):
    begin, end = uninterrupted
    first = begin(tmp_path, Meddling(batches, 4, send(signal.SIGINT)))
    assert first.go() == RunState(step=4, batch=4)
    second = begin(tmp_path, batches)
    assert second.go() == finished(step=6, epoch=1, batch=2)
    assert_same(second.values(), end)


@pytest.mark.parametrize("ends_workers", [False, True])
def test_stopped_while_an_epoch_is_waited_for(tmp_path, batches, uninterrupted, ends_workers):
    """The second one; a signal to all processes ends those that make its subwords too."""
    begin, end = uninterrupted

    class Waiting:
        count_tokens = batches.count_tokens

        def epoch(self, epoch, first_batch, own_slices=None):
            if epoch == 0:
                return batches.epoch(epoch, first_batch, own_slices)
            with contextlib.suppress(Preempted) if ends_workers else contextlib.nullcontext():
                send(signal.SIGTERM)()
                time.sleep(60)
            raise UserError("a worker process was killed")

    first = begin(tmp_path, Waiting())
    assert first.go() == RunState(step=4, epoch=1)
    assert first.stopped_by == signal.SIGTERM
    second = begin(tmp_path, batches)
    assert second.go() == finished(step=6, epoch=1, batch=2)
    assert_same(second.values(), end)


def test_an_epoch_that_cannot_be_made_is_an_error(tmp_path, batches):
    class Failing:
        def epoch(self, epoch, first_batch, own_slices=None):
            raise UserError("there is no room")

    with pytest.raises(UserError, match="there is no room"):
        Run(tmp_path, FakeStep(), Failing(), 3).go()
    assert written(tmp_path) == []


def test_killed_and_resumed_repeats_what_was_lost(tmp_path, batches, uninterrupted):
    """Killed at update 4, with the last checkpoint at 2."""
    begin, end = uninterrupted

    def kill():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin(tmp_path, Meddling(batches, 4, kill), every_steps=2).go()
    assert written(tmp_path) == [2]
    second = begin(tmp_path, batches, every_steps=2)
    assert second.go().step == 6
    assert_same(second.values(), end)
    assert written(tmp_path) == [2, 4, 6]


def test_killed_and_resumed_with_epochs_segmented_anew(tmp_path, batches):
    """Bit for bit, on two replicas; who goes on begins with epoch 1."""
    step = tiny_step(replicas=2, dropout=0.2, micro_batches=2)
    variables = [*step.model.trainable_variables, *step.optimizer.variables]
    initial = [keras.ops.convert_to_numpy(variable.value).copy() for variable in variables]
    data: Any = SimpleNamespace(subwords=None, max_length=16)

    def segmented():
        return closing(Batches(batches._store, BatchSettings(60, 2, Doubled()), 3, 2, data=data))

    def begin(folder, made):
        for variable, value in zip(variables, initial, strict=True):
            variable.assign(value)
        return Run(tmp_path / folder, step, made, steps=7, every_steps=2)

    def kill():
        raise KeyboardInterrupt

    with segmented() as made:
        whole = begin("whole", made)
        end = whole.go()
        assert end.epoch >= 1
        assert len(made.plan(0)) < 6
        texts = [
            sorted(row.tobytes() for source, *_ in made.epoch(epoch, 0) for row in source.numpy())
            for epoch in (0, 1)
        ]
        assert texts[0] != texts[1]
        values = whole.values()
    with segmented() as made, pytest.raises(KeyboardInterrupt):
        begin("cut", Meddling(made, 6, kill)).go()
    with segmented() as made:
        second = begin("cut", made)
        assert second.go() == end
        assert_same(second.values(), values)
        # No epoch was made that was over.
        assert 0 not in made._stores._made


def test_curves_do_not_show_where_a_run_was_stopped(tmp_path, batches):
    """Nor which batches the run that goes on has not seen itself."""
    pace = {"log_every": 3}
    Run(tmp_path / "whole", FakeStep(), batches, 6, pace=pace).go()
    for steps in (2, 6):
        Run(tmp_path / "cut", FakeStep(), batches, steps, pace=pace).go()
    for name in ("train/loss", "train/padding_share"):
        whole, cut = (dict(curve(tmp_path / run / "tensorboard", name)) for run in ("whole", "cut"))
        assert sorted(whole) == [3, 6]
        # The shorter of the two runs reports its last step too.
        assert {step: cut[step] for step in whole} == whole


def test_a_run_that_is_over_stays_as_it_is(tmp_path, batches):
    run = Run(tmp_path, FakeStep(), batches, 3)
    end = run.go()
    again = Run(tmp_path, FakeStep(), batches, 3)
    assert again.go() == end
    assert again.step.seen == []
    assert_same(again.values(), run.values())
    longer = Run(tmp_path, FakeStep(), batches, 5)
    assert longer.go().step == 5
    assert [step for step, *_ in longer.step.seen] == [3, 4]


def test_a_run_goes_through_the_plan(tmp_path, batches):
    """Two epochs: every sentence once in each, cut into slices, in a new order."""
    run = Run(tmp_path, FakeStep(), batches, 8)
    # Where an epoch ends, the state before and after it is the same place.
    assert run.go() == finished(step=8, epoch=1, batch=4)
    assert [step for step, *_ in run.step.seen] == list(range(8))
    epochs = [run.step.seen[:4], run.step.seen[4:]]
    rows = [
        [(tuple(s[s != 0]), tuple(t[t != 0])) for _, source, target in epoch
         for s, t in zip(source.reshape(-1, source.shape[2]),
                         target.reshape(-1, target.shape[2]), strict=True) if s.any()]
        for epoch in epochs
    ]  # fmt: skip
    assert len(rows[0]) == SENTENCES
    assert sorted(rows[0]) == sorted(rows[1])
    assert rows[0] != rows[1]


# A loss that is not finite


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path, batches, uninterrupted):
    begin, _ = uninterrupted

    def poison():
        weight = run.step.model.trainable_variables[1]
        weight.assign(np.full(weight.shape, np.nan))

    options = {"every_steps": 2, "pace": {"evaluate_every": 4}, "scores": [(3.0, 9.0)]}
    run = begin(tmp_path, Meddling(batches, 6, poison), 20, **options)
    expected = (
        r"the loss is nan and .* nan at step 6 \(epoch 1, batch 1\), .*"
        r"intact \(.*checkpoints.step-4\); .*--replay=.*nonfinite.step-5\.npz"
    )
    with pytest.raises(UserError, match=expected) as error:
        run.go()
    assert "\n" not in str(error.value)
    assert (written(tmp_path), written(tmp_path, "best")) == ([2, 4], [4])
    bad = read_batch(tmp_path / "nonfinite" / "step-5.npz")
    assert bad.step == 5
    source, target, _ = next(iter(batches.epoch(1, 1)))
    np.testing.assert_array_equal(bad.source, source)
    np.testing.assert_array_equal(bad.target, target)
    # It can be gone on with: everything that is restored is finite.
    again = begin(tmp_path, batches)
    state = again.checkpoints.restore()
    assert (state.step, state.epoch, state.batch) == (4, 0, 4)
    assert all(np.isfinite(value).all() for value in again.values())
    assert again.go().step == 6


def test_a_bad_batch_that_cannot_be_kept_does_not_hide_that_it_is_bad(
    tmp_path, batches, uninterrupted
):
    begin, _ = uninterrupted
    (tmp_path / "nonfinite").touch()
    run = begin(tmp_path, batches)
    weight = run.step.model.trainable_variables[1]
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(UserError, match=r"^the loss is nan .*again: cannot write .*are intact\.$"):
        run.go()


@pytest.mark.parametrize(
    "bad", [(math.nan, 1.0), (math.inf, 1.0), (2.0, math.nan), (2.0, math.inf)]
)
@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_nothing_bad_is_written(tmp_path, batches, bad, number):
    """Not at the first update, not where a checkpoint is due, not when told to stop."""
    meddling = Meddling(batches, 1, send(number) if number else lambda: None)
    run = Run(tmp_path, FakeStep({1: bad}), meddling, 1, every_steps=1)
    with pytest.raises(UserError, match=r"step 1 \(epoch 0, batch 0\), .* \(none was written yet"):
        run.go()
    assert written(tmp_path) == []


# Dev evaluations and checkpoints


@pytest.mark.parametrize(
    ("criterion", "best", "stops", "stale"), [("score", 6, 10, 2), ("nll", 4, 8, 2)]
)
def test_best_checkpoint_and_patience_go_by_one_criterion(
    tmp_path, batches, caplog, criterion, best, stops, stale
):
    caplog.set_level("INFO", logger="absl")
    #          better nll   better both  only BLEU    neither      neither
    scores = [(4.0, 10.0), (3.0, 11.0), (3.5, 12.0), (3.1, 11.5), (3.2, 11.6), (0.0, 99.0)]
    pace = {"evaluate_every": 2, "patience": 2, "criterion": criterion}
    run = Run(tmp_path, FakeStep(), batches, 100, scores, pace, every_steps=3, keep=2)
    state = run.go()
    start = run.evaluated[0] - 2
    # After every second update, with the weights after it.
    assert run.evaluated == pytest.approx([start + step for step in range(2, stops + 1, 2)])
    assert (state.step, state.stale) == (stops, stale)
    assert (state.best_score, state.best_nll) == (12.0, 3.0)
    assert written(tmp_path, "best") == [best]
    assert written(tmp_path) == [stops - 1 if criterion == "score" else 6, stops]
    name = {"score": "BLEU", "nll": "nll"}[criterion]
    assert f"train: dev {name} has not improved in 2 evaluations" in caplog.text
    # Patience that has ended has ended for the run that goes on as well.
    again = Run(tmp_path, FakeStep(), batches, 100, scores, pace)
    assert again.go() == state
    assert again.step.seen == []


def test_where_less_is_better_a_run_that_was_stopped_goes_on_as_if_it_had_not(tmp_path, batches):
    found = [150.0, 60.0, 70.0, 55.0, 58.0, 57.0, 1.0]
    scores = [(9.0 - number, score) for number, score in enumerate(found)]
    pace = {"evaluate_every": 2, "patience": 2}

    def by_ter(folder, batches, scores):
        run: Any = Run(tmp_path / folder, FakeStep(), batches, 100, scores, pace)
        usual = run.scores
        run.scores = lambda shares: usual(shares)._replace(metric="TER", higher_is_better=False)
        return run.go()

    whole = by_ter("whole", batches, scores)
    assert (whole.step, whole.best_score, whole.stale) == (12, 55.0, 2)
    for step in (3, 5, 9):
        folder = f"stopped at {step}"
        stopped = by_ter(folder, Meddling(batches, step, send(signal.SIGTERM)), scores)
        assert stopped.step in (step, step + 1)
        assert by_ter(folder, batches, scores[stopped.step // 2 :]) == whole
        assert written(tmp_path / folder, "best") == written(tmp_path / "whole", "best") == [8]


def test_images_of_a_dev_evaluation_are_in_tensorboard(tmp_path, batches):
    run: Any = Run(
        tmp_path, FakeStep(), batches, 2, [(4.0, 9.0), (4.0, 9.0)], {"evaluate_every": 1}
    )
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 6, 3), np.uint8)
    scores = [DevScores(4.0, 9.0, "| a |", images=[("attention/cross", image)]) for image in pixels]
    run.scores = lambda shares: scores.pop(0)
    run.go()
    found = {}
    for path in (tmp_path / "tensorboard").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == "dev/attention/cross":
                    width, height, png = tf.make_ndarray(value.tensor)
                    assert (int(width), int(height)) == (6, 4)
                    found[event.step] = tf.image.decode_png(png).numpy()
    assert sorted(found) == [1, 2]
    np.testing.assert_array_equal([found[1], found[2]], pixels)


def test_a_gradient_that_is_too_long_ends_the_run(tmp_path, batches):
    """It is finite, and said to be."""
    step = FakeStep({3: (2.0, 1e25)})
    run = Run(tmp_path, step, batches, 20)
    expected = (
        r"the loss is 2 and .* norm 1e\+25 at step 3 .* expected a norm of at most 1\.8e\+19:"
    )
    with pytest.raises(UserError, match=expected):
        run.go()


def test_a_dev_nll_that_is_not_finite_is_not_the_best(tmp_path, batches):
    scores = [(4.0, 10.0), (math.nan, 0.0), (3.0, 0.0)]
    run = Run(tmp_path, FakeStep(), batches, 3, scores, {"evaluate_every": 1})
    state = run.go()
    assert (state.best_nll, state.stale) == (3.0, 2)


def test_evaluation_comes_before_the_checkpoint_of_the_same_update(tmp_path, batches):
    run = Run(tmp_path, FakeStep(), batches, 2, [(4.0, 10.0)], {"evaluate_every": 2}, every_steps=2)
    state = run.go()
    assert state.best_score == 10.0
    assert Run(tmp_path, FakeStep(), batches, 2).checkpoints.restore() == state


def test_checkpoints_by_the_minute(tmp_path, batches):
    run = Run(tmp_path, FakeStep(), batches, 3, every_minutes=0)
    run.go()
    assert written(tmp_path) == [1, 2, 3]


# The end of a run


@pytest.mark.parametrize(("steps", "evaluated"), [(4, [2, 4]), (5, [2, 4, 5])])
def test_the_last_updates_are_judged_once(tmp_path, batches, steps, evaluated):
    """By a run that is started again, too."""
    scores = [(4.0, 10.0 + number) for number in range(len(evaluated))]
    run = Run(tmp_path, FakeStep(), batches, steps, scores, {"evaluate_every": 2})
    end = run.go()
    assert (end.best_score, end.evaluated_at) == (scores[-1][1], steps)
    assert [step for step, _ in curve(tmp_path / "tensorboard", "dev/nll")] == evaluated
    assert written(tmp_path, "best") == [steps]
    again = Run(tmp_path, FakeStep(), batches, steps, pace={"evaluate_every": 2})
    assert again.go() == end
    assert again.evaluated == []


def test_a_run_that_was_stopped_and_then_called_finished_is_judged(tmp_path, batches):
    Run(tmp_path, FakeStep(), Meddling(batches, 3, send(signal.SIGTERM)), 6).go()
    again = Run(tmp_path, FakeStep(), batches, 3, [(4.0, 10.0)])
    end = RunState(3, 0, 3, best_score=10.0, best_nll=4.0, evaluated_at=3)
    assert again.go() == judged(end)
    assert again.step.seen == []
    assert written(tmp_path, "best") == [3]


def test_killed_in_its_last_evaluation_a_run_makes_it_again(tmp_path, batches, monkeypatch):
    def kill():
        raise KeyboardInterrupt

    run = Run(tmp_path, FakeStep(), batches, 5, every_steps=2)
    monkeypatch.setattr(run, "share", kill)
    with pytest.raises(KeyboardInterrupt):
        run.go()
    again = Run(tmp_path, FakeStep(), batches, 5)
    assert again.go() == finished(step=5, epoch=1, batch=1)
    assert [step for step, *_ in again.step.seen] == [4]
