"""What Keras asks of a model that reads source and target, besides what it computes."""

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.vocabulary import PAD_ID

Pair = tuple[Any, Any] | list[Any] | dict[str, Any]
"""Something of the source and of the target, or both under these names."""


class SourceTargetModel(keras.Model):
    """A model that is called with source and target ids as one argument.

    Keras gives what `fit`, `predict` and `evaluate` get as x as one argument.

    Attributes:
        vocab_size: how many entries it scores.
    """

    vocab_size: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model, as Keras does, with source and target as one argument; see `call`.

        Raises:
            UserError: what is given are not a source and a target.
        """
        if len(args) > 1:
            raise UserError(
                f"the Transformer was called with {len(args)} arguments, expected source and "
                "target as one: write model((source, target))."
            )
        for inputs in args:
            source_and_target(inputs)
        return super().__call__(*args, **kwargs)

    def compute_output_shape(self, inputs_shape: Pair) -> tuple[int | None, ...]:
        """Returns [batch, target_length, vocab]."""
        _, target_shape = source_and_target(inputs_shape)
        return (*target_shape, self.vocab_size)

    def compute_mask(self, inputs: Pair, previous_mask: Any) -> tf.Tensor:
        """Where the target holds a token: Keras's losses and metrics leave the rest out."""
        _, target = source_and_target(inputs)
        return ops.not_equal(target, PAD_ID)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Trains the model; see `keras.Model.fit`.

        Raises:
            UserError: Keras cannot train so on several devices.
        """
        strategy = self.distribute_strategy
        replicas = strategy.num_replicas_in_sync
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            raise UserError(
                "the model was made under MultiWorkerMirroredStrategy, for which Keras's fit does "
                "not work: train with `python -m t2t_repro.trainer`, on the same machines."
            )
        if self.jit_compile and replicas > 1:
            raise UserError(
                f"jit_compile is True under a strategy of {replicas} replicas, for which "
                "Keras's fit does not work: compile without it, or train with "
                "`python -m t2t_repro.trainer`, which uses XLA on any number of GPUs."
            )
        return super().fit(*args, **kwargs)

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the forward pass; see `keras.Model.export`.

        What translates text is exported by `python -m t2t_repro.export`.

        Args:
            filepath: where it is written.
            format: one of Keras's.
            verbose: whether it is described.
            input_signature: by default source and target, int32 [batch, length] both.
            kwargs: of the format.
        """
        if input_signature is None:
            # Keras would take the ids for vectors: of what its layers read it keeps no dtype.
            source, target = (
                keras.InputSpec(dtype="int32", shape=(None, None), name=name)
                for name in ("source", "target")
            )
            input_signature = [(source, target)]
        super().export(filepath, format, verbose, input_signature, **kwargs)


def source_and_target(inputs: Pair) -> tuple[Any, Any]:
    """Takes apart what the model is called with, or their shapes.

    Raises:
        UserError: it is no pair.
    """
    if isinstance(inputs, dict) and inputs.keys() == {"source", "target"}:
        return inputs["source"], inputs["target"]
    if isinstance(inputs, tuple | list) and len(inputs) == 2:
        source, target = inputs
        return source, target
    if isinstance(inputs, dict):
        given = f"a dictionary of {', '.join(map(str, inputs)) or 'nothing'}"
    elif isinstance(inputs, tuple | list):
        given = f"a {type(inputs).__name__} of {len(inputs)}"
    else:
        given = f"one input of the shape {tuple(inputs.shape)}"
    raise UserError(
        f"the Transformer was called with {given}, expected source and target: pass "
        '(source, target), or {"source": source, "target": target}.'
    )
