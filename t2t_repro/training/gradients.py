"""Loss and gradients of micro-batches, added up: the pure function that XLA compiles.

A global batch is cut into a fixed number of micro-batches. R replicas compute an R-th of them each,
one after the other: so one device does exactly what eight do, dropout included.

XLA compiles a *pure* function of tensors (weights in, sums and gradients out), because a function
that captures the variables of a MirroredStrategy fails on the second device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import keras
import tensorflow as tf

from t2t_repro.data.batches import Batch
from t2t_repro.model.kernels import PLAIN, gpu
from t2t_repro.model.kernels.dropout_bits import scrambled
from t2t_repro.model.loss import CrossEntropy, LossSums
from t2t_repro.model.transformer import Transformer


@dataclass(eq=False)
class MicroBatchGradients:
    """Sums of loss and gradients over micro-batches.

    Attributes:
        model: the Transformer.
        loss: the loss of its vectors.
        seed: seed of dropout, which is a function of (seed, step, number of the micro-batch).
        jit_compile: whether XLA compiles the forward and backward pass of a micro-batch.
        updated: the variables to differentiate by.
    """

    model: Transformer
    loss: CrossEntropy
    seed: int
    jit_compile: bool
    updated: Sequence[keras.Variable]

    def __post_init__(self) -> None:
        updated_ids = {id(weight) for weight in self.updated}
        self._is_updated = [id(weight) in updated_ids for weight in self.model.trainable_variables]
        ids = tf.TensorSpec([None, None], tf.int32)
        self.function = tf.function(
            self._compute_micro_batch,
            input_signature=[
                [tf.TensorSpec(v.shape, v.dtype) for v in self.model.trainable_variables],
                tf.TensorSpec([len(self.model.non_trainable_variables), 2], tf.int64),
                Batch(ids, ids, tf.TensorSpec([2], tf.int32)),
                tf.TensorSpec([], tf.float32),
            ],
            jit_compile=self.jit_compile or None,  # None is TensorFlow's default.
            autograph=False,
        )
        # Traced once for all shapes and replicas: MirroredStrategy would trace again for every
        # replica, and XLA finds the programs that `TrainStep.compile` made by their trace.
        self._traced = self.function.get_concrete_function()

    def __call__(
        self, step: tf.Tensor, first: tf.Tensor | int, batch: Batch, scale: tf.Tensor
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Adds up losses, and gradients of loss · scale, over micro-batches.

        Args:
            step: number of updates before this one, an int64 scalar.
            first: number of the first micro-batch in the global batch.
            batch: the micro-batches; their number is static.
            scale: factor of the gradients, a float32 scalar.

        Returns:
            the sums, and one gradient per updated variable.
        """
        weights = [tf.convert_to_tensor(v.value) for v in self.model.trainable_variables]
        # Only `function` runs eagerly where TensorFlow is told to; a trace does not.
        compute = self.function if tf.config.functions_run_eagerly() else self._traced

        def gradients_of(index: tf.Tensor | int) -> tuple[LossSums, list[tf.Tensor]]:
            micro_batch = Batch(batch.source[index], batch.target[index], batch.capacity)
            return compute(weights, self._dropout_seeds(step, first + index), micro_batch, scale)

        micro_batches = batch.source.shape[0]
        if micro_batches == 1:
            return gradients_of(0)
        zero = tf.zeros([])
        no_gradients = [tf.zeros_like(weight) for weight in compress(weights, self._is_updated)]
        return tf.foldl(
            lambda total, index: tf.nest.map_structure(tf.add, total, gradients_of(index)),
            tf.range(micro_batches),
            initializer=(LossSums(loss=zero, nll=zero, tokens=zero), no_gradients),
            parallel_iterations=1,  # Memory for one micro-batch at a time.
        )

    def _compute_micro_batch(
        self, weights: list[tf.Tensor], seeds: tf.Tensor, batch: Batch, scale: tf.Tensor
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Computes loss sums, and gradients of loss · scale, of a micro-batch [rows, length].

        The function is pure: `weights` and `seeds` take the place of the model's variables. XLA
        treats the value of `capacity` as a constant, and compiles a program for each.

        Returns:
            the sums, and a dense gradient per updated weight.
        """
        updated = list(compress(weights, self._is_updated))
        trainable = zip(self.model.trainable_variables, weights, strict=True)
        # Only dropout layers have variables that are not trained: their seeds.
        dropout = zip(self.model.non_trainable_variables, tf.unstack(scrambled(seeds)), strict=True)
        capacity = None if PLAIN else batch.capacity  # None: without packing.
        with gpu.compiled(self.jit_compile):
            with tf.GradientTape() as tape, keras.StatelessScope([*trainable, *dropout]):
                tape.watch(updated)
                sums = self.model.loss_sums(
                    batch.source, batch.target, self.loss, training=True, capacity=capacity
                )
            gradients = tape.gradient(sums.loss, updated, output_gradients=scale)
        # Dense: tf.IndexedSlices cannot leave a function that XLA compiles.
        return sums, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _dropout_seeds(self, step: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
        """Returns the seeds of one micro-batch's dropout layers, [dropout layers, 2] int64.

        Args:
            step: number of updates before this one.
            number: number of the micro-batch in the global batch.
        """
        key = tf.constant([self.seed, 0], tf.int64)
        for counter in (step, tf.cast(number, tf.int64)):
            key = tf.random.experimental.stateless_fold_in(key, counter)
        count = len(self.model.non_trainable_variables)
        seeds = tf.random.stateless_uniform([count, 2], key, maxval=2**31 - 1, dtype=tf.int32)
        # TensorFlow keeps int32 on the host, and a GPU would wait for the copy.
        return tf.cast(seeds, tf.int64)
