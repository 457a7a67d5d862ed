"""The Keras side of layers, of a model (calls, masks, fit, export) and of the loss.

A `LayerConfig` names the activation and the norm, so that it can be saved as text. Your own gets
its name when it is registered with Keras, in a module that the gin file imports:

    @keras.saving.register_keras_serializable(package="my_parts")
    def squared_relu(x): ...

is "my_parts>squared_relu".
"""

import inspect
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from t2t_repro.config.values import Rate, validated
from t2t_repro.errors import UserError
from t2t_repro.model.loss import smoothed_cross_entropy, smoothing_entropy
from t2t_repro.vocabulary import PAD_ID

Pair = tuple[Any, Any] | list[Any] | dict[str, Any]
"""Source and target, as a pair or as a dictionary with these names."""


# The end of a message about an unknown activation or norm.
YOUR_OWN = (
    "'package>name' of what a module registers with keras.saving.register_keras_serializable: "
    "import the module in the gin file."
)


def registered_part(name: str) -> Any:
    """Returns what a user's module registered with Keras under a name, such as "my_parts>norm".

    None if nothing is registered under it, or if it is a part of this package.
    """
    return None if name.startswith("t2t_repro>") else keras.saving.get_registered_object(name)


class SameShape(keras.layers.Layer):
    """A layer whose output has the shape of its first input, and Keras's mask of it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, x_shape: tuple) -> None:
        """Builds every attribute that is a layer, for the shape of x: [batch, length, width].

        A class whose layers get other shapes, or are held in lists, needs a `build` of its own.
        """
        for part in vars(self).values():
            if isinstance(part, keras.layers.Layer):
                part.build(x_shape)
        self.built = True

    def compute_output_shape(self, x_shape: tuple) -> tuple[int | None, ...]:
        """Returns the shape of the input, of several that of the first."""
        return tuple(x_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, by name.

        A layer keeps each as an attribute of its name. `config`, a `LayerConfig`, becomes a
        dictionary, which Keras can save.
        """
        # The `kwargs` of a constructor are named by its bases: up to `SameShape` they are read
        # here, and Keras's own below.
        classes = [cls for cls in type(self).__mro__ if issubclass(cls, SameShape)]
        names = {name for cls in classes for name in inspect.signature(cls.__init__).parameters}
        arguments = {name: getattr(self, name) for name in names - {"self", "args", "kwargs"}}
        if "config" in arguments:
            arguments["config"] = arguments["config"].to_dict()
        return super().get_config() | arguments


class SourceTargetModel(keras.Model):
    """A model that is called with source and target ids as one argument.

    Keras calls a model with the x of `fit`, `predict` and `evaluate` as one argument.

    Attributes:
        vocab_size: the number of entries that it scores.
    """

    vocab_size: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model with source and target as one argument; see `call`.

        Raises:
            UserError: the argument is not a pair of source and target.
        """
        # All positional arguments, not the first alone: for model(source, target) Keras's own error
        # would not say that a pair is expected.
        for inputs in args:
            source_and_target(inputs)
        return super().__call__(*args, **kwargs)

    def compute_output_shape(self, inputs_shape: Pair) -> tuple[int | None, ...]:
        """Returns the shape of the logits, [batch, target_length, vocab]."""
        _, target_shape = source_and_target(inputs_shape)
        return (*target_shape, self.vocab_size)

    def compute_mask(self, inputs: Pair, previous_mask: Any) -> tf.Tensor:
        """Returns the mask [batch, target_length]: True for tokens, which losses and metrics count.

        `previous_mask`, which Keras passes, is not used: ids have none.
        """
        _, target = source_and_target(inputs)
        return ops.not_equal(target, PAD_ID)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Trains the model; see `keras.Model.fit`, which cannot train on several machines.

        Raises:
            UserError: the model was made under a `MultiWorkerMirroredStrategy`; or it has several
                replicas, and was compiled with `jit_compile`.
        """
        strategy = self.distribute_strategy
        replicas = strategy.num_replicas_in_sync
        # With a single worker too: Keras 3's fit does not work under this strategy.
        is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        if is_multi_worker or (self.jit_compile and replicas > 1):
            problem = f"the model was made under {type(strategy).__name__} of {replicas} replicas"
            limits = "Keras's fit works on one machine, and with jit_compile on one replica"
            raise UserError(f"{problem}, but {limits}: use `python -m t2t_repro.trainer` instead.")
        return super().fit(*args, **kwargs)

    def export(self, *args: Any, **kwargs: Any) -> None:
        """Exports the forward pass (see `keras.Model.export`).

        By default its input is a pair of source and target ids, int32 [batch, length].
        `python -m t2t_repro.export` exports a translator of text.
        """
        if len(args) < 4:
            # `input_signature` is the fourth: by default Keras would take the ids for vectors.
            ids: dict[str, Any] = {"dtype": "int32", "shape": (None, None)}
            pair = keras.InputSpec(name="source", **ids), keras.InputSpec(name="target", **ids)
            kwargs.setdefault("input_signature", [pair])
        super().export(*args, **kwargs)


@keras.saving.register_keras_serializable(package="t2t_repro")
@validated
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The loss of `CrossEntropy` for Keras's `compile`: its mean over the tokens.

    Labels that are PAD are ignored. Several replicas take the mean of their means, as Keras does;
    the trainer counts every token equally. `kwargs` are Keras's `reduction`, by default the mean
    over the tokens of a batch, and `dtype`.
    """

    def __init__(
        self, label_smoothing: Rate = 0.1, name: str = "label_smoothed_cross_entropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Computes the loss of every label, in nats: [batch, length] float32, with Keras's mask.

        `y_true` are labels [batch, length], PAD after the end; `y_pred` are logits [batch, length,
        vocab].

        Raises:
            ValueError: logits are not [batch, length, vocab], or labels not their [batch, length].
        """
        if y_pred.shape.rank != 3 or not y_pred.shape[:2].is_compatible_with(y_true.shape):
            raise ValueError(
                f"labels {y_true.shape}, logits {y_pred.shape}: expected [batch, length] and "
                "[batch, length, vocab]; the labels are the target that the model is given."
            )
        labels = tf.cast(y_true, tf.int32)
        losses, _ = smoothed_cross_entropy(y_pred, labels, self.label_smoothing)
        losses -= smoothing_entropy(y_pred.shape[-1], self.label_smoothing)
        # Keras then takes the mean over the mask; it has no public way to set one.
        losses._keras_mask = labels != PAD_ID
        return losses

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def source_and_target(inputs: Pair) -> tuple[Any, Any]:
    """Returns source and target from the model's one argument; of shapes, those of both.

    Raises:
        UserError: the argument is not a pair of source and target.
    """
    if isinstance(inputs, dict) and inputs.keys() == {"source", "target"}:
        return inputs["source"], inputs["target"]
    if isinstance(inputs, tuple | list) and len(inputs) == 2:
        return inputs[0], inputs[1]
    problem = f"the Transformer was called with one {type(inputs).__name__}"
    raise UserError(f"{problem}, expected source and target: a pair, or a dict with these names.")
