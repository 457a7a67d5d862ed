"""One optimizer update, the same on all devices.

    TrainStep → on every replica: `_gradients` → MicroBatchGradients → Transformer.loss_sums
              → SummedUpdate

R replicas compute an R-th of a batch's micro-batches each; gradient accumulation means more
micro-batches than replicas. The sum over replicas and the optimizer stay outside of what XLA
compiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from t2t_repro.data.batch_shapes import BatchShape, capacity_needed
from t2t_repro.data.batches import Batch
from t2t_repro.errors import UserError
from t2t_repro.model.loss import LossSums
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.fine_tuning import updated_weights
from t2t_repro.training.gradients import MicroBatchGradients
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.optimizer import SummedUpdate
from t2t_repro.training.settings import StepSettings
from t2t_repro.training.workers import own_replicas


class StepResult(NamedTuple):
    """The report on one update, as float32 scalars.

    Attributes:
        loss: label-smoothed loss per target token, less the entropy of the smoothing; in nats.
        nll: negative log-likelihood per target token; in nats.
        gradient_norm: global norm of the gradient, before clipping.
        learning_rate: the rate of this update.
        stop_votes: how many replicas' workers had been asked to stop.
        usable: 1 if loss and gradient norm are finite, 0 if not. The norm is not finite either
            where the square of the gradient, which Adam averages, does not fit float32.
    """

    loss: tf.Tensor
    nll: tf.Tensor
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor
    stop_votes: tf.Tensor
    usable: tf.Tensor


@dataclass(eq=False)
class TrainStep:
    """The update: forward, loss, backward, sum over micro-batches and replicas, clip, optimizer.

    Attributes:
        model: the Transformer, created in the scope of the current strategy.
        optimizer: created in the same scope; it is built here, for the updated weights.
        settings: settings of the update.
        seed: seed of dropout, which is a function of (seed, step, number of the micro-batch).
        jit_compile: whether XLA compiles the forward and backward pass.
        decay: decay of the moving average of the weights; None for no average.
        strategy: the strategy in whose scope this was made.
        micro_batches: number of micro-batches of a global batch.
        micro_batches_per_replica: number of those that each replica computes, one by one.
        own_micro_batches: indices of those that the replicas of this process compute.
        micro_batch_gradients: computes the gradients of a micro-batch.
        average: the moving average of the weights, which follows every update.
        updated: the variables that an update changes.
        apply: updates the weights, once the gradients are summed.

    Raises:
        UserError: the model lacks a part that is frozen, or `SummedUpdate` refuses the optimizer.
    """

    model: Transformer
    optimizer: keras.Optimizer
    settings: StepSettings
    seed: int
    jit_compile: bool = False
    decay: float | None = None

    def __post_init__(self) -> None:
        self.strategy = tf.distribute.get_strategy()
        replicas = self.strategy.num_replicas_in_sync
        # Rounded up.
        self.micro_batches_per_replica = per_replica = -(-self.settings.micro_batches // replicas)
        self.micro_batches = per_replica * replicas
        own = own_replicas(self.strategy)
        self.own_micro_batches = range(own.start * per_replica, own.stop * per_replica)
        self.updated = updated_weights(self.model, self.settings.frozen)
        self.optimizer.build(self.updated)
        self.micro_batch_gradients = MicroBatchGradients(
            self.model, self.settings.loss, self.seed, self.jit_compile, self.updated
        )
        # All weights are averaged: to load a checkpoint, one need not know which were frozen.
        self.average = MovingAverage(self.model.trainable_variables, self.decay)
        self.apply = SummedUpdate(self.optimizer, self.updated, self.average)
        step, vote = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.float32)
        signature = [step, _batch_spec(len(self.own_micro_batches)), vote]
        self._update_all = tf.function(self._update, input_signature=signature, autograph=False)
        self._try_all = tf.function(self._try, input_signature=[_batch_spec(1)], autograph=False)

    def __call__(
        self,
        step: int,
        source: np.ndarray | tf.Tensor,
        target: np.ndarray | tf.Tensor,
        capacity: np.ndarray | tf.Tensor | None = None,
        asks_to_stop: bool = False,
    ) -> StepResult:
        """Updates the weights once.

        Args:
            step: number of updates before this one.
            source: [own micro-batches, rows, source_length], token ids.
            target: [own micro-batches, rows, target_length], token ids.
            capacity: [2], how many vectors source and target of a micro-batch are packed into. The
                default is the least that is allowed: one more than the tokens of the fullest
                micro-batch. XLA compiles a program for each pair of numbers.
            asks_to_stop: whether this worker votes for the end of the run.

        Returns:
            the result over the whole global batch. Once it is not usable, neither this nor any
            later call updates the weights.
        """
        if capacity is None:
            capacity = capacity_needed(source, target)
        vote = tf.constant(asks_to_stop, tf.float32)
        return self._update_all(tf.constant(step, tf.int64), Batch(source, target, capacity), vote)

    def _update(self, step: tf.Tensor, batch: Batch, vote: tf.Tensor) -> StepResult:
        """Updates the weights by the gradient of a global batch; see `__call__`.

        Args:
            step: number of updates before this one.
            batch: the micro-batches of this worker.
            vote: 1 if this worker was asked to stop, 0 if not.
        """
        sums, votes, gradients = self.strategy.run(self._gradients, args=(step, batch, vote))
        sums, votes = self._first_of((sums, votes))
        norm = tf.linalg.global_norm(self._first_of(gradients))
        is_usable = tf.math.is_finite(sums.loss) & tf.math.is_finite(norm)
        # Before `apply`, which counts the update.
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        self.apply(gradients, is_usable)
        return StepResult(
            loss=sums.loss / sums.tokens,
            nll=sums.nll / sums.tokens,
            gradient_norm=norm,
            learning_rate=rate,
            stop_votes=votes,
            usable=tf.cast(is_usable, tf.float32),
        )

    def _gradients(
        self, step: tf.Tensor, batch: Batch, vote: tf.Tensor
    ) -> tuple[LossSums, tf.Tensor, list[tf.Tensor]]:
        """Computes loss, votes and gradients on one replica, and sums them over all replicas.

        Args:
            step: number of updates before this one.
            batch: all micro-batches of this worker, a hundred kilobytes of ids; the replica cuts
                out its own.
            vote: 1 if this worker was asked to stop, 0 if not.

        Returns:
            the sums of the losses, the number of votes, and a gradient of the mean loss per updated
            variable, the same on every replica.
        """
        replica = tf.distribute.get_replica_context()
        count = self.micro_batches_per_replica
        # Of the replica's first micro-batch: its number in the global batch, its index in `batch`.
        number = tf.cast(replica.replica_id_in_sync_group, tf.int32) * count
        first = number - self.own_micro_batches.start
        source, target = (ids[first : first + count] for ids in (batch.source, batch.target))
        # Slices have lost the static number that `MicroBatchGradients` needs.
        for ids in (source, target):
            ids.set_shape([count, None, None])
        own_tokens = tf.math.count_nonzero(target, dtype=tf.float32)
        # `1.0 *` gives each replica a tensor: TensorFlow refuses to sum one that all share.
        tokens, votes = replica.all_reduce(tf.distribute.ReduceOp.SUM, [own_tokens, 1.0 * vote])
        replica_batch = Batch(source, target, batch.capacity)
        sums, gradients = self.micro_batch_gradients(step, number, replica_batch, 1.0 / tokens)
        sums, gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, (sums, gradients))
        return sums, votes, gradients

    def _first_of(self, per_replica: Any) -> Any:
        """Returns tensors of the first replica, in the same structure; all replicas have the same.

        Args:
            per_replica: a result of `strategy.run`: tensors in nested tuples and lists.
        """
        local_values = self.strategy.experimental_local_results
        return tf.nest.map_structure(lambda value: local_values(value)[0], per_replica)

    def compile(self, shapes: Sequence[BatchShape]) -> None:
        """Runs a micro-batch of padding of every shape on every replica; updates nothing.

        XLA, if used, compiles a program for each shape. A batch that does not fit in memory is
        reported in the first minutes, not hours later.

        Args:
            shapes: shapes of the micro-batches.

        Raises:
            UserError: a micro-batch does not fit in memory.
        """
        for number, shape in enumerate(shapes, start=1):
            # Rows, and the longest source and target sentence.
            size = f"{shape.rows} x {shape.lengths[0]}, {shape.lengths[1]}"
            logging.info("train: trying shape %d of %d: %s", number, len(shapes), size)
            source, target = (np.zeros((1, shape.rows, n), np.int32) for n in shape.lengths)
            try:
                self._try_all(Batch(source, target, np.array(shape.capacity, np.int32)))
            except tf.errors.ResourceExhaustedError as error:
                problem = f"a micro-batch of the shape {size} does not fit in memory"
                fix = "raise TrainStep.micro_batches, or lower Batches.tokens_per_batch"
                raise UserError(f"{problem}: {fix}.") from error

    def _try(self, batch: Batch) -> tf.Tensor:
        """Computes a micro-batch's gradients on every replica, and returns the sum of their norms.

        The sum depends on all replicas: TensorFlow would not run one whose result is unused.
        """

        def norm() -> tf.Tensor:
            step, scale = tf.constant(0, tf.int64), tf.constant(1.0)
            _, gradients = self.micro_batch_gradients(step, 0, batch, scale)
            return tf.linalg.global_norm(gradients)

        return tf.add_n(self.strategy.experimental_local_results(self.strategy.run(norm)))


def _batch_spec(micro_batches: int) -> Batch:
    """Returns the `tf.TensorSpec`s of a batch of any rows and lengths."""
    ids = tf.TensorSpec([micro_batches, None, None], tf.int32)
    return Batch(ids, ids, tf.TensorSpec([2], tf.int32))
