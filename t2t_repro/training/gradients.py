"""Loss and gradients of the slices of a batch, added up: what XLA compiles.

A global batch is cut into a fixed number of slices. R replicas take slices / R each, one after
the other: so one device does exactly what eight do, dropout included.

XLA compiles a *pure* function of tensors (weights in, sums and gradients out), because a function
that captures the variables of a MirroredStrategy fails on the second device.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.xla.service import hlo_pb2

from t2t_repro.data.batch_shapes import BatchShape
from t2t_repro.model.kernels import PLAIN, gpu
from t2t_repro.model.kernels.dropout_bits import scrambled
from t2t_repro.model.loss import CrossEntropy, LossSums
from t2t_repro.model.transformer import Transformer


class MicroBatchGradients:
    """Sums of loss and gradients over slices of a batch.

    Args:
        model: the Transformer.
        loss: of its vectors.
        seed: of dropout, which is a function of (seed, step, number of the slice).
        jit_compile: whether XLA compiles the forward and backward pass of a slice.
        updated: the model's variables by which there are gradients; all trainable ones by default.
    """

    def __init__(
        self,
        model: Transformer,
        loss: CrossEntropy,
        seed: int,
        jit_compile: bool,
        updated: Sequence[keras.Variable] | None = None,
    ) -> None:
        self._model = model
        wanted = {id(weight) for weight in updated or model.trainable_variables}
        # Which of the trainable variables have gradients.
        self._updated = [id(weight) in wanted for weight in model.trainable_variables]
        self._loss = loss
        self._seed = seed
        self._jit_compile = jit_compile
        ids = tf.TensorSpec([None, None], tf.int32)
        weights = [tf.TensorSpec(v.shape, v.dtype) for v in model.trainable_variables]
        self.of_slice = tf.function(
            self._of_slice,
            input_signature=[
                weights,
                tf.TensorSpec([len(model.non_trainable_variables), 2], tf.int64),
                ids,
                ids,
                tf.TensorSpec([2], tf.int32),
                tf.TensorSpec([], tf.float32),
            ],
            jit_compile=jit_compile or None,
            autograph=False,
        )
        # Traced once for all shapes and replicas; MirroredStrategy would trace again for every
        # replica. XLA finds its programs by trace, so rehearsal and training have to share one. On
        # disk it finds them by the name of the trace, in which TensorFlow counts what the process
        # has traced before. So it is traced here, before data or a checkpoint make a restart
        # differ.
        self._traced = self.of_slice.get_concrete_function()

    def __call__(
        self,
        step: tf.Tensor,
        first: tf.Tensor | int,
        source: tf.Tensor,
        target: tf.Tensor,
        capacity: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Adds up the loss, and the gradients of loss · scale, over some slices.

        Args:
            step: number of updates before this one, int64.
            first: number of the first slice in the global batch.
            source: [slices, rows, source_length], token ids.
            target: [slices, rows, target_length], token ids.
            capacity: [2], into how many vectors source and target of a slice are packed.
            scale: factor of the gradients.

        Returns:
            the sums, and the gradient by every variable that is updated.
        """
        weights = self._weights()
        of_slice = self.of_slice if tf.config.functions_run_eagerly() else self._traced

        def one(index: Any) -> tuple[LossSums, list[tf.Tensor]]:
            seeds = self._dropout_seeds(step, first + index)
            return of_slice(weights, seeds, source[index], target[index], capacity, scale)

        if source.shape[0] == 1:
            return one(0)
        zeros = (
            LossSums(*[tf.zeros([])] * 3),
            [tf.zeros_like(w) for w in self._of_updated(weights)],
        )
        return tf.foldl(
            lambda total, index: tf.nest.map_structure(tf.add, total, one(index)),
            tf.range(source.shape[0]),
            initializer=zeros,
            parallel_iterations=1,
        )

    def _of_slice(
        self,
        weights: list[tf.Tensor],
        seeds: tf.Tensor,
        source: tf.Tensor,
        target: tf.Tensor,
        capacity: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[LossSums, list[tf.Tensor]]:
        """Pure: weights, seeds, [rows, length] ids in; sums and gradients of loss · scale out.

        XLA takes the value of `slots` for a constant, and compiles a program for each.
        """
        updated = self._of_updated(weights)
        trainable = zip(self._model.trainable_variables, weights, strict=True)
        states = self._model.non_trainable_variables
        dropout = zip(states, tf.unstack(scrambled(seeds)), strict=True)
        with gpu.compiled(self._jit_compile):
            with tf.GradientTape() as tape:
                tape.watch(updated)
                with keras.StatelessScope(state_mapping=[*trainable, *dropout]):
                    sums = self._model.loss_sums(
                        source,
                        target,
                        self._loss,
                        training=True,
                        capacity=None if PLAIN else capacity,
                    )
            gradients = tape.gradient(sums.loss, updated, output_gradients=scale)
        # Dense: slices cannot leave a function that XLA compiles.
        return sums, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def peak_bytes(self, shape: BatchShape) -> int:
        """Asks XLA for the memory that the program of a shape needs, weights and gradients too.

        XLA compiles it anew for that.
        """
        source, target = (tf.zeros([shape.rows, length], tf.int32) for length in shape.lengths)
        seeds = self._dropout_seeds(tf.constant(0, tf.int64), 0)
        capacity, scale = tf.constant(shape.capacity, tf.int32), tf.constant(1.0)
        program = self.of_slice.experimental_get_compiler_ir(
            self._weights(), seeds, source, target, capacity, scale
        )(stage="optimized_hlo_proto_serialized")
        allocations = hlo_pb2.HloProto.FromString(program).buffer_assignment.buffer_allocations
        return sum(allocation.size for allocation in allocations)

    def _of_updated(self, values: list[tf.Tensor]) -> list[tf.Tensor]:
        """Those of the values of trainable variables whose variables are updated."""
        return list(compress(values, self._updated))

    def _weights(self) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(v.value) for v in self._model.trainable_variables]

    def _dropout_seeds(self, step: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
        """[dropout layers, 2], what the state of each one's generator is made of."""
        key = tf.constant([self._seed, 0], tf.int64)
        for data in (step, tf.cast(number, tf.int64)):
            key = tf.random.experimental.stateless_fold_in(key, data)
        count = len(self._model.non_trainable_variables)
        seeds = tf.random.stateless_uniform(
            [count, 2], key, minval=0, maxval=2**31 - 1, dtype=tf.int32
        )
        # int32 would be taken to the host, for which a GPU would wait.
        return tf.cast(seeds, tf.int64)
