"""A model's weights, without the optimizer's state: read, written and averaged."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder

# The values of a MovingAverage in a run's checkpoint.
_AVERAGE = "average/values/{}/.ATTRIBUTES/VARIABLE_VALUE"
# Names of the weights of a Transformer whose source is ours.
_OURS = re.compile(
    r"logits_bias|(\w*embedding|softmax|\w*positional_encoding)/table|(encoder|decoder)/"
    r"(final_norm/|layer_\d+/around_\w+/norm/)(gamma|beta)|(encoder|decoder)/layer_\d+/"
    r"(\w+_attention/(query|key|value|output)|feed_forward/(inner|outer))/(kernel|bias)"
)
_OF_STACK = re.compile(
    r"(encoder|decoder)/(?:final_norm|layer_(\d+)/(?:around_)?(\w+)/(\w+))/(\w+)"
)


class LayerWeight(NamedTuple):
    """A weight of a stack.

    Attributes:
        stack: "encoder" or "decoder".
        layer: the number of the layer in its stack, from 0; -1 for the norm after the last one.
        sublayer: "self_attention", "memory_attention" or "feed_forward"; "" for that norm.
        part: "query", "key", "value", "output"; "inner", "outer"; or "norm".
        kind: "kernel" or "bias"; of a norm, "gamma" or "beta".
        variable: its values.
    """

    stack: str
    layer: int
    sublayer: str
    part: str
    kind: str
    variable: keras.Variable


def name_of(weight: keras.Variable) -> str:
    """Returns a weight's name in its model, such as "encoder/layer_0/feed_forward/inner/bias"."""
    # Keras numbers the models of a process: their own names say nothing.
    return str(weight.path).partition("/")[2]


def layer_weights(model: Transformer) -> Iterator[LayerWeight]:
    """Lists the weights of both stacks."""
    for weight in model.trainable_variables:
        if found := _OF_STACK.fullmatch(name_of(weight)):
            stack, layer, sublayer, part, kind = found.groups()
            yield LayerWeight(stack, int(layer or -1), sublayer or "", part or "norm", kind, weight)


def named_values(model: Transformer) -> dict[str, NDArray[np.float32]]:
    """Returns the values of all trainable weights by name; see `name_of`."""
    return {name_of(weight): weight.numpy() for weight in model.trainable_variables}


def load_weights(model: Transformer, checkpoint: str) -> None:
    """Restores the weights that a model is used with from a checkpoint.

    These are the moving average of a run that keeps one.

    Raises:
        UserError: the checkpoint is of another model, or damaged.
    """
    try:
        check_same_weights(model, checkpoint)
        tf.train.Checkpoint(model=model).restore(checkpoint).expect_partial()
        reader = tf.train.load_checkpoint(checkpoint)
        if reader.has_tensor(_AVERAGE.format(0)):
            for number, weight in enumerate(model.trainable_variables):
                weight.assign(reader.get_tensor(_AVERAGE.format(number)))
    # TensorFlow walks over a graph of objects that the checkpoint holds, and checks little of it.
    except Exception as error:
        raise UserError(
            f"{checkpoint} does not fit the model beside it ({reason_of(error)}): give another "
            "--checkpoint, or use the source code that it was trained with."
        ) from error


def check_same_weights(model: keras.Model, checkpoint: str) -> None:
    """Checks that a checkpoint has the weights that a model has, no more and no fewer.

    TensorFlow would leave out, without an error, what the model does not have: weights of other
    layers, or of a layer whose source was edited.

    Raises:
        ValueError: it has others; the message names them.
    """
    view = tf.train.CheckpointView(checkpoint)
    nodes = view._object_graph_proto.nodes
    matched = view.match(tf.train.Checkpoint(model=model))
    restored = set(map(id, matched.values()))
    more = [
        path
        for number, path in _paths(view, view.children(0).get("model", 0))
        # Keras's `compile`, which callbacks need, makes the optimizer a part of the model.
        if nodes[number].attributes and number not in matched and path.split("/")[0] != "optimizer"
    ]
    lacking = [name_of(weight) for weight in model.weights if id(weight) not in restored]
    for what, names in (("has, unlike the model,", more), ("lacks", lacking)):
        if names:
            raise ValueError(f"it {what} {len(names)} weights: {', '.join(names)}")


def _paths(view: tf.train.CheckpointView, parent: int, path: str = "") -> Iterator[tuple[int, str]]:
    """Yields the numbers of the objects that an object of a checkpoint holds, with their paths."""
    for name, number in view.children(parent).items():
        yield number, f"{path}{name}"
        yield from _paths(view, number, f"{path}{name}/")


def check_exportable(
    model: Transformer, engine: str, settings: Mapping[str, tuple[Any, Any]]
) -> None:
    """Checks that another engine's format can hold a model.

    Args:
        model: built.
        engine: its name.
        settings: by name, the model's value and those that the format can hold.

    Raises:
        UserError: it cannot; or the model has weights beside a Transformer's, such as those of a
            layer whose source was edited.
    """
    others = [name for name in map(name_of, model.weights) if not _OURS.fullmatch(name)]
    for name, (value, supported) in {**settings, "weights": (others, [[]])}.items():
        if value not in supported:
            raise UserError(
                f"the model has {name} = {value!r}, expected {' or '.join(map(repr, supported))}: "
                f"{engine} cannot hold others; give --format=saved_model."
            )


def save_weights(model: Transformer, folder: Path, step: int) -> None:
    """Writes the weights as the only checkpoint of a folder.

    Raises:
        UserError: they cannot be written.
    """
    CheckpointFolder(folder).write(tf.train.Checkpoint(model=model), step)


def average_weights(model: Transformer, checkpoints: Collection[str]) -> None:
    """Sets the weights to their mean over checkpoints (paper, section 6.1).

    The mean is computed in float64, so that the mean of N copies is the copy.

    Args:
        model: the Transformer that the checkpoints are of.
        checkpoints: their paths, at least one.

    Raises:
        UserError: a checkpoint is of a model of other sizes, or damaged.
    """
    sums = [np.zeros(weight.shape, np.float64) for weight in model.trainable_variables]
    for path in checkpoints:
        load_weights(model, path)
        for total, weight in zip(sums, model.trainable_variables, strict=True):
            total += weight.numpy()
    for total, weight in zip(sums, model.trainable_variables, strict=True):
        weight.assign((total / len(checkpoints)).astype(np.float32))
