"""One optimizer update, the same whatever the devices.

    TrainStep → on every replica: `_gradients` → MicroBatchGradients → Transformer.loss_sums

R replicas take their share of a batch's slices each; "gradient accumulation" is nothing but fewer
replicas than slices. The sum over replicas and the optimizer stay outside what XLA compiles.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gin
import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from t2t_repro.config.values import Count, Text, validated
from t2t_repro.data.batch_shapes import BatchShape, capacity_needed
from t2t_repro.model.loss import CrossEntropy, LossSums
from t2t_repro.model.transformer import Transformer
from t2t_repro.training.devices import own_replicas
from t2t_repro.training.frozen import divide
from t2t_repro.training.gradients import MicroBatchGradients
from t2t_repro.training.moving_average import MovingAverage
from t2t_repro.training.optimizer import SummedUpdate, global_norm


class StepResult(NamedTuple):
    """What one update reports; float32 scalars.

    Attributes:
        loss: label-smoothed loss per target token, the smoothing's entropy taken off; in nats.
        nll: negative log-likelihood per target token; in nats.
        tokens: target tokens of the global batch.
        gradient_norm: global norm of the gradient, before clipping.
        learning_rate: that the update was made with.
        stop_votes: how many replicas' workers had been asked to stop.
        usable: 1 if loss and gradient can be used, 0 if not; see `SummedUpdate`.
    """

    loss: tf.Tensor
    nll: tf.Tensor
    tokens: tf.Tensor
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor
    stop_votes: tf.Tensor
    usable: tf.Tensor


@gin.configurable(denylist=["model", "optimizer", "seed", "jit_compile"])
@validated
class TrainStep:
    """The update: forward, loss, backward, sum over slices and replicas, clip, Adam.

    Args:
        model: the Transformer, created in the scope of the current strategy.
        optimizer: made in the same scope; it is built here, for the weights that are updated.
        seed: of dropout, which is a function of (seed, step, slice).
        jit_compile: whether XLA compiles the forward and backward pass.
        loss: of the decoder's vectors; the paper's by default.
        micro_batches: how many slices a global batch is cut into at least; rounded up to a
            multiple of the number of replicas.
        frozen: parts of the model that the update leaves as they are, by their names; see `divide`.

    Attributes:
        model: as given.
        optimizer: as given.
        seed: as given.
        jit_compile: as given.
        strategy: the current one, when it was made.
        micro_batches: of a global batch.
        slices_per_replica: those that each replica takes, one after the other.
        slice_gradients: computes the gradients of a slice.
        own_slices: those of them that the replicas of this process take.
        average: of the weights, which follows every update.
        updated: the variables that an update changes.
        frozen: the parts that it does not change.

    Raises:
        UserError: slices is no number of slices, the optimizer does more than update, or there is
            no such part, or nothing else.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: keras.Optimizer,
        seed: int,
        jit_compile: bool = False,
        loss: CrossEntropy | None = None,
        micro_batches: Count = 1,
        frozen: Sequence[Text] = (),
    ) -> None:
        self.model = model
        self.seed = seed
        self.optimizer = optimizer
        self.strategy = tf.distribute.get_strategy()
        replicas = self.strategy.num_replicas_in_sync
        self.slices_per_replica = -(-micro_batches // replicas)
        self.micro_batches = self.slices_per_replica * replicas
        own = own_replicas(self.strategy)
        self.own_slices = range(
            own.start * self.slices_per_replica, own.stop * self.slices_per_replica
        )
        self.jit_compile = jit_compile
        self.updated, self.frozen = divide(model, frozen)
        optimizer.build(self.updated)
        self.slice_gradients = MicroBatchGradients(
            model, loss or CrossEntropy(), seed, jit_compile, self.updated
        )
        # Of all weights: whoever loads a checkpoint need not know what was frozen.
        self.average = MovingAverage(model.trainable_variables)
        self._apply = SummedUpdate(optimizer, self.updated, self.average)
        batch = tf.TensorSpec([len(self.own_slices), None, None], tf.int32)
        capacity = tf.TensorSpec([2], tf.int32)
        self._update_all = tf.function(
            self._update,
            input_signature=[
                tf.TensorSpec([], tf.int64),
                batch,
                batch,
                capacity,
                tf.TensorSpec([], tf.float32),
            ],
            autograph=False,
        )
        self._rehearse_all = tf.function(
            self._rehearse,
            input_signature=[batch, batch, capacity],
            autograph=False,
        )

    def __call__(
        self,
        step: int,
        source: np.ndarray,
        target: np.ndarray,
        capacity: ArrayLike | None = None,
        asks_to_stop: bool = False,
    ) -> StepResult:
        """Updates the weights once.

        Args:
            step: number of updates before this one.
            source: [own slices, rows, source_length], token ids.
            target: [own slices, rows, target_length], token ids.
            capacity: [2], into how many vectors source and target of a slice are packed, one more
                than it has tokens at least; by default so many as the fullest slice asks for. For
                each pair of numbers XLA compiles a program.
            asks_to_stop: whether this worker votes for it.

        Returns:
            what happened, over the whole global batch. Where loss or gradient cannot be used, see
            `SummedUpdate`, nothing is updated, now and from then on: the weights stay what they
            were before.

        Raises:
            ValueError: if the batch has another number of slices, or too few slots.
        """
        for name, ids in (("source", source), ("target", target)):
            if len(ids.shape) != 3 or ids.shape[0] != len(self.own_slices):
                raise ValueError(
                    f"{name} has the shape {tuple(ids.shape)}, expected "
                    f"[{len(self.own_slices)} slices, rows, length]."
                )
        needed = capacity_needed(source, target)
        capacity = needed if capacity is None else np.asarray(capacity, np.int32)
        if (capacity < needed).any():
            raise ValueError(f"capacity is {capacity}, expected {needed} at least.")
        vote = tf.constant(asks_to_stop, tf.float32)
        return self._update_all(tf.constant(step, tf.int64), source, target, capacity, vote)

    def _update(self, *step_batch_and_vote: tf.Tensor) -> StepResult:
        """Updates the weights by the gradient of a global batch; arguments as `_gradients` has."""
        *told, gradients = self.strategy.run(self._gradients, args=step_batch_and_vote)
        sums, votes = self._any_of(told)
        norm = global_norm(self._any_of(gradients))
        is_finite = tf.math.is_finite(sums.loss) & tf.math.is_finite(norm)
        rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        is_usable = self._apply(gradients, norm, is_finite)
        return StepResult(
            loss=sums.loss / sums.tokens,
            nll=sums.nll / sums.tokens,
            tokens=sums.tokens,
            gradient_norm=norm,
            learning_rate=rate,
            stop_votes=votes,
            usable=tf.cast(is_usable, tf.float32),
        )

    def _gradients(
        self,
        step: tf.Tensor,
        source: tf.Tensor,
        target: tf.Tensor,
        capacity: tf.Tensor,
        vote: tf.Tensor,
    ) -> tuple[LossSums, tf.Tensor, list[tf.Tensor]]:
        """What every replica does: sums over all replicas of loss, votes and gradients."""
        replica = tf.distribute.get_replica_context()
        number, source, target = self._share(source, target)
        own_tokens = tf.math.count_nonzero(target, dtype=tf.float32)
        tokens, votes = replica.all_reduce(tf.distribute.ReduceOp.SUM, [own_tokens, 1.0 * vote])
        sums, gradients = self.slice_gradients(step, number, source, target, capacity, 1.0 / tokens)
        sums, gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, (sums, gradients))
        return sums, votes, gradients

    def gradients(
        self, step: int, source: np.ndarray, target: np.ndarray
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Computes what `__call__` would update the weights with, on one device.

        Args:
            step: number of updates before this one.
            source: [slices, rows, source_length], token ids.
            target: [slices, rows, target_length], token ids.

        Returns:
            the sums over the batch, and the gradient of the loss per target token by every
            variable that is updated, not clipped.
        """
        scale = tf.constant(1.0 / np.count_nonzero(target), tf.float32)
        capacity = tf.constant(capacity_needed(source, target))
        ids = tf.constant(source), tf.constant(target)
        return self.slice_gradients(tf.constant(step, tf.int64), 0, *ids, capacity, scale)

    def compile(self, shapes: Sequence[BatchShape]) -> int:
        """Compiles, and runs once, the forward and backward pass of every shape.

        Finds a batch that does not fit the memory now, not hours later. Without XLA there is
        nothing to compile.

        Returns:
            the number of shapes compiled.
        """
        if not self.jit_compile:
            return 0
        for shape in shapes:
            source, target = (
                np.zeros((len(self.own_slices), shape.rows, length), np.int32)
                for length in shape.lengths
            )
            self._rehearse_all(source, target, np.array(shape.capacity, np.int32))
        return len(shapes)

    def _rehearse(self, source: tf.Tensor, target: tf.Tensor, capacity: tf.Tensor) -> tf.Tensor:
        """Target tokens of this worker's slices.

        Every replica's result is read: TensorFlow leaves out a replica whose result nobody uses.
        """

        def own_tokens(source: tf.Tensor, target: tf.Tensor, capacity: tf.Tensor) -> tf.Tensor:
            number, source, target = self._share(source, target)
            step, scale = tf.constant(0, tf.int64), tf.constant(1.0)
            sums, _ = self.slice_gradients(step, number, source, target, capacity, scale)
            return sums.tokens

        tokens = self.strategy.run(own_tokens, args=(source, target, capacity))
        return tf.add_n(self.strategy.experimental_local_results(tokens))

    def _any_of(self, everywhere: Any) -> Any:
        """Takes one of what all replicas have returned alike."""
        return tf.nest.map_structure(
            lambda x: self.strategy.experimental_local_results(x)[0], everywhere
        )

    def _share(
        self, source: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """What one replica takes of its worker's slices, and the number of the first of them.

        Every replica is given all slices of its worker, a hundred kilobytes of ids.
        """
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        count = self.slices_per_replica
        number = tf.cast(replica, tf.int32) * count
        first = number - self.own_slices.start
        source, target = (ids[first : first + count] for ids in (source, target))
        for ids in (source, target):
            ids.set_shape([count, None, None])
        return number, source, target
