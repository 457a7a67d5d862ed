"""One optimizer update, the same whatever the devices.

A global batch is cut into a fixed number of slices. R replicas take slices / R each, one after
the other, and add up the gradients: so one device does exactly what eight do, dropout included,
and "gradient accumulation" is nothing but fewer replicas than slices.

What the shape of the code owes to TensorFlow: XLA compiles a *pure* function of tensors (weights
in, sums and gradients out), because a function that captures the variables of a MirroredStrategy
fails on the second device. The sum over replicas and the optimizer stay outside it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import gin
import keras
import numpy as np
import tensorflow as tf

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.layers.layout import PADDED, Layout, Packed
from t2t_repro.models.transformer import Transformer
from t2t_repro.training.loss import LossSums, loss_sums
from t2t_repro.training.workers import Workers


class StepResult(NamedTuple):
    """What one update reports; float32 scalars.

    Attributes:
        loss: label-smoothed loss per target token, the smoothing's entropy taken off; in nats.
        nll: negative log-likelihood per target token; in nats.
        tokens: target tokens of the global batch.
        gradient_norm: global norm of the gradient, before clipping.
        learning_rate: that the update was made with.
        stop_votes: how many replicas' workers had been asked to stop.
    """

    loss: tf.Tensor
    nll: tf.Tensor
    tokens: tf.Tensor
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor
    stop_votes: tf.Tensor


@gin.configurable(denylist=["model", "optimizer", "seed"])
class TrainStep:
    """The update: forward, loss, backward, sum over slices and replicas, clip, Adam.

    Args:
        model: the Transformer, created in the scope of the current strategy.
        optimizer: built for the model's weights in the same scope.
        seed: of dropout, which is a function of (seed, step, slice).
        label_smoothing: ε.
        slices: how many slices a global batch is cut into at least; rounded up to a multiple of
            the number of replicas.
        clip_norm: the greatest global norm of the summed gradient, or None.
        jit_compile: whether XLA compiles the step; None means on GPUs only. (On a CPU XLA is
            slower than oneDNN.)

    Attributes:
        slices: of a global batch.
        own_slices: those of them that the replicas of this process take.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: keras.Optimizer,
        seed: int,
        label_smoothing: float = 0.1,
        slices: int = 1,
        clip_norm: float | None = None,
        jit_compile: bool | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.seed = seed
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        _check_plain(optimizer)
        self._table = next(
            index
            for index, variable in enumerate(model.trainable_variables)
            if variable is model.embedding.table
        )
        self.strategy = tf.distribute.get_strategy()
        self._is_sound = tf.Variable(True, trainable=False)
        replicas = self.strategy.num_replicas_in_sync
        self.slices_per_replica = -(-slices // replicas)
        self.slices = self.slices_per_replica * replicas
        own = Workers(self.strategy).replicas
        self.own_slices = range(
            own.start * self.slices_per_replica, own.stop * self.slices_per_replica
        )
        if jit_compile is None:
            jit_compile = bool(tf.config.list_logical_devices("GPU"))
        self.jit_compile = jit_compile
        ids = tf.TensorSpec([None, None], tf.int32)
        weights, seeds = (
            [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        )
        # One trace for all shapes: XLA keeps its programs by trace, and those that `compile` made
        # have to be those that training runs.
        self._slice_gradients = tf.function(
            self._gradients_of_slice,
            input_signature=[weights, seeds, ids, ids, tf.TensorSpec([], tf.float32)],
            jit_compile=jit_compile or None,
            autograph=False,
        )
        batch = tf.TensorSpec([len(self.own_slices), None, None], tf.int32)
        self._update = tf.function(
            self._update_replicas,
            input_signature=[
                tf.TensorSpec([], tf.int64),
                batch,
                batch,
                tf.TensorSpec([], tf.float32),
            ],
            autograph=False,
        )
        self._rehearse = tf.function(
            self._rehearse_replicas, input_signature=[batch, batch], autograph=False
        )
        if jit_compile:
            # XLA's cache on disk knows a program by the function's name, in which TensorFlow counts
            # what the process has made before: so it is traced here, before data or a checkpoint
            # make a restart differ.
            self._rehearse.get_concrete_function()

    def __call__(
        self, step: int, source: np.ndarray, target: np.ndarray, asks_to_stop: bool = False
    ) -> StepResult:
        """Updates the weights once.

        Args:
            step: number of updates before this one.
            source: [own slices, rows, source_length], token ids.
            target: [own slices, rows, target_length], token ids.
            asks_to_stop: whether this worker votes for it.

        Returns:
            what happened, over the whole global batch. Where loss or gradient is not finite,
            nothing is updated, now and from then on: the weights stay what they were before.

        Raises:
            ValueError: if the batch has another number of slices.
        """
        for name, ids in (("source", source), ("target", target)):
            if len(ids.shape) != 3 or ids.shape[0] != len(self.own_slices):
                raise ValueError(
                    f"{name} has the shape {tuple(ids.shape)}, expected "
                    f"[{len(self.own_slices)} slices, rows, length]."
                )
        vote = tf.constant(asks_to_stop, tf.float32)
        return StepResult(*self._update(tf.constant(step, tf.int64), source, target, vote))

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
            trainable variable, not clipped.
        """
        step_tensor, tokens = tf.constant(step, tf.int64), np.count_nonzero(target)
        scale = tf.constant(1.0 / tokens, tf.float32)
        return self._accumulate(step_tensor, tf.constant(source), tf.constant(target), scale)

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
            rows = -(-shape.rows // self.slices)
            source = np.ones((len(self.own_slices), rows, shape.source_length), np.int32)
            target = np.ones((len(self.own_slices), rows, shape.target_length), np.int32)
            self._rehearse(source, target)
        return len(shapes)

    def _rehearse_replicas(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        def replica_fn(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
            step, scale = tf.constant(0, tf.int64), tf.constant(1.0)
            sums, _ = self._accumulate(step, source, target, scale)
            return sums.tokens

        return self.strategy.run(replica_fn, args=(source, target))

    def _update_replicas(
        self, step: tf.Tensor, source: tf.Tensor, target: tf.Tensor, vote: tf.Tensor
    ) -> list:
        per_replica = self.strategy.run(self._update_replica, args=(step, source, target, vote))
        # Every replica holds the same sums.
        return [self.strategy.experimental_local_results(x)[0] for x in per_replica]

    def _update_replica(
        self, step: tf.Tensor, source: tf.Tensor, target: tf.Tensor, vote: tf.Tensor
    ) -> list:
        context = tf.distribute.get_replica_context()
        first = self._first_slice()
        own = target[first : first + self.slices_per_replica]
        own_tokens = tf.math.count_nonzero(own, dtype=tf.float32)
        tokens, votes = context.all_reduce(tf.distribute.ReduceOp.SUM, [own_tokens, 1.0 * vote])
        sums, gradients = self._accumulate(step, source, target, 1.0 / tokens)
        sums, gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, (sums, gradients))
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, use_norm=norm)
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        is_finite = tf.math.is_finite(sums.loss) & tf.math.is_finite(norm)
        context.merge_call(self._apply_if, args=(is_finite, gradients, learning_rate))
        return [sums.loss / tokens, sums.nll / tokens, tokens, norm, learning_rate, votes]

    def _apply_if(
        self,
        strategy: tf.distribute.Strategy,
        is_finite: tf.Tensor,
        gradients: list,
        learning_rate: tf.Tensor,
    ) -> None:
        # Every replica holds the same sums. Later updates may be under way before the host has
        # seen this one's.
        is_sound = self._is_sound & strategy.experimental_local_results(is_finite)[0]
        self._is_sound.assign(is_sound)
        tf.cond(is_sound, lambda: self._apply(strategy, gradients, learning_rate), lambda: None)

    def _apply(
        self, strategy: tf.distribute.Strategy, gradients: list, learning_rate: tf.Tensor
    ) -> None:
        """Keras's `Optimizer.apply`, without its sum: these gradients are the sums already."""
        for variable, gradient in zip(self.model.trainable_variables, gradients, strict=True):
            strategy.extended.update(
                variable.value,
                lambda weight, gradient, rate: self.optimizer.update_step(gradient, weight, rate),
                args=(gradient, learning_rate),
                group=False,
            )
        self.optimizer.iterations.assign_add(1)

    def _accumulate(
        self, step: tf.Tensor, source: tf.Tensor, target: tf.Tensor, scale: tf.Tensor
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Adds up loss, and gradients of loss · scale, over the slices of one replica.

        Every replica is given all slices of its worker, a hundred kilobytes of ids, and takes its
        part.
        """
        weights = [tf.convert_to_tensor(v.value) for v in self.model.trainable_variables]
        first = self._first_slice()

        def one(index: tf.Tensor) -> tuple:
            seeds = self._dropout_seeds(step, self.own_slices.start + first + index)
            return self._slice_gradients(
                weights, seeds, source[first + index], target[first + index], scale
            )

        if self.slices_per_replica == 1:
            return one(tf.constant(0))
        zeros = (LossSums(*[tf.zeros([])] * 3), [tf.zeros_like(w) for w in weights])
        return tf.foldl(
            lambda total, index: tf.nest.map_structure(tf.add, total, one(index)),
            tf.range(self.slices_per_replica),
            initializer=zeros,
            parallel_iterations=1,
        )

    def _first_slice(self) -> tf.Tensor:
        """Where a replica's slices begin among those of its worker."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.cast(replica, tf.int32) * self.slices_per_replica - self.own_slices.start

    def _gradients_of_slice(
        self,
        weights: list[tf.Tensor],
        seeds: list[tf.Tensor],
        source: tf.Tensor,
        target: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Pure: [rows, length] ids and weights in, sums and gradients of loss · scale out."""
        trainable = zip(self.model.trainable_variables, weights, strict=True)
        dropout = zip(self.model.non_trainable_variables, seeds, strict=True)
        source_layout, target_layout = self._layout(source), self._layout(target)
        with tf.GradientTape() as tape:
            tape.watch(weights)
            with keras.StatelessScope(state_mapping=[*trainable, *dropout]):
                memory = self.model.encode(source, True, source_layout)
                vectors = self.model.decode(
                    target, memory, source, True, target_layout, source_layout
                )
            labels = target_layout.arrange_ids(target)
            sums = loss_sums(vectors, weights[self._table], labels, self.label_smoothing)
        return sums, tape.gradient(sums.loss, weights, output_gradients=scale)

    def _layout(self, ids: tf.Tensor) -> Layout:
        # XLA asks for shapes that are known; elsewhere no work goes into padding.
        return PADDED if self.jit_compile else Packed(ids)

    def _dropout_seeds(self, step: tf.Tensor, slice_index: tf.Tensor) -> list[tf.Tensor]:
        """The state of every dropout layer's generator: a function of (seed, step, slice)."""
        states = self.model.non_trainable_variables
        key = tf.constant([self.seed, 0], tf.int64)
        for data in (step, tf.cast(slice_index, tf.int64)):
            key = tf.random.experimental.stateless_fold_in(key, data)
        seeds = tf.random.stateless_uniform(
            [len(states), 2], key, minval=0, maxval=2**31 - 1, dtype=tf.int32
        )
        return [tf.cast(seeds[i], state.dtype) for i, state in enumerate(states)]


def _check_plain(optimizer: keras.Optimizer) -> None:
    """Refuses what Keras does around an optimizer's own update: on several replicas, it fails."""
    for name in (
        "weight_decay",
        "clipnorm",
        "clipvalue",
        "global_clipnorm",
        "use_ema",
        "loss_scale_factor",
        "gradient_accumulation_steps",
    ):
        if getattr(optimizer, name, None):
            raise ValueError(
                f"the optimizer has {name}={getattr(optimizer, name)}, expected a plain update: "
                "leave it out; TrainStep clips with clip_norm and accumulates with slices."
            )
