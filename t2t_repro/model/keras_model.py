"""The Keras side of layers, and of a model of source and target: calls, masks, fit, export."""

import inspect
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.errors import UserError
from t2t_repro.vocabulary import PAD_ID

Pair = tuple[Any, Any] | list[Any] | dict[str, Any]
"""Source and target, as a pair or as a dictionary with these names."""


class SameShape(keras.layers.Layer):
    """A layer whose output has the shape of its first input, and Keras's mask of it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, x_shape: tuple) -> None:
        """Builds the parts for inputs [batch, length, width]."""
        for part in self._flatten_layers(include_self=False, recursive=False):
            part.build(x_shape)
        self.built = True

    def compute_output_shape(self, x_shape: tuple) -> tuple[int | None, ...]:
        """Returns the shape of the input, of several that of the first."""
        return tuple(x_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments; a layer keeps each as an attribute of its name."""
        parents = [one for one in type(self).__mro__ if issubclass(one, SameShape)]
        names = {name for one in parents for name in inspect.signature(one.__init__).parameters}
        own = {name: getattr(self, name) for name in names - {"self", "args", "kwargs"}}
        return super().get_config() | own


class SourceTargetModel(keras.Model):
    """A model that is called with source and target ids as one argument.

    Keras calls a model with the x of `fit`, `predict` and `evaluate` as one argument.

    Attributes:
        vocab_size: the number of entries that it scores.
    """

    vocab_size: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model, as Keras does, with source and target as one argument; see `call`.

        Raises:
            UserError: the argument is not a source and a target.
        """
        for inputs in args:
            source_and_target(inputs)
        return super().__call__(*args, **kwargs)

    def compute_output_shape(self, inputs_shape: Pair) -> tuple[int | None, ...]:
        """Returns [batch, target_length, vocab]."""
        _, target_shape = source_and_target(inputs_shape)
        return (*target_shape, self.vocab_size)

    def compute_mask(self, inputs: Pair, previous_mask: Any) -> tf.Tensor:
        """Returns where the target holds a token; Keras's losses and metrics ignore the rest."""
        _, target = source_and_target(inputs)
        return ops.not_equal(target, PAD_ID)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Trains the model; see `keras.Model.fit`.

        Raises:
            UserError: Keras cannot train on several devices in this way.
        """
        strategy = self.distribute_strategy
        replicas = strategy.num_replicas_in_sync
        several_workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        if several_workers or (self.jit_compile and replicas > 1):
            raise UserError(
                f"the model was made under {type(strategy).__name__} of {replicas} replicas, for "
                "which Keras's fit works on one machine only, and without jit_compile: train with "
                "`python -m t2t_repro.trainer`, which does both."
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

        `python -m t2t_repro.export` exports a translator of text.

        Args:
            filepath: where to write it.
            format: one of Keras's.
            verbose: whether Keras describes the export.
            input_signature: by default source and target, both int32 [batch, length].
            kwargs: of the format.
        """
        if input_signature is None:
            # By default Keras would take the ids for vectors.
            source, target = (
                keras.InputSpec(dtype="int32", shape=(None, None), name=name)
                for name in ("source", "target")
            )
            input_signature = [(source, target)]
        super().export(filepath, format, verbose, input_signature, **kwargs)


def source_and_target(inputs: Pair) -> tuple[Any, Any]:
    """Returns source and target from the model's argument, or their shapes.

    Raises:
        UserError: it is not a pair.
    """
    if isinstance(inputs, dict) and inputs.keys() == {"source", "target"}:
        return inputs["source"], inputs["target"]
    if isinstance(inputs, tuple | list) and len(inputs) == 2:
        source, target = inputs
        return source, target
    raise UserError(
        f"the Transformer was called with one {type(inputs).__name__}, expected source and target: "
        'pass (source, target), or {"source": source, "target": target}.'
    )
