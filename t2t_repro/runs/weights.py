"""A model's weights, without the optimizer's state: read, written and averaged."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.checkpoint_folder import CheckpointFolder
from t2t_repro.vocabulary import PAD_ID

# Keys in a checkpoint: of the variable at a path, and of the n-th value of a MovingAverage.
_VALUE = "{}/.ATTRIBUTES/VARIABLE_VALUE"
_AVERAGE = _VALUE.format("average/values/{}")
# Names of the weights of a Transformer without layers of the user's own.
_OURS = re.compile(
    r"logits_bias|(\w*embedding|softmax|\w*positional_encoding)/table|(encoder|decoder)/"
    r"(final_norm/|layer_\d+/around_\w+/norm/)(gamma|beta)|(encoder|decoder)/layer_\d+/"
    r"(\w+_attention/(query|key|value|output|forget)|feed_forward/(inner|outer))/(kernel|bias)"
)
# Its groups are the fields of `LayerWeight` but `variable`.
_STACK = re.compile(r"(encoder|decoder)/(?:final_norm|layer_(\d+)/(?:around_)?(\w+)/(\w+))/(\w+)")


class LayerWeight(NamedTuple):
    """A weight of a stack.

    Attributes:
        stack: "encoder" or "decoder".
        layer: the number of the layer in its stack, from 0; -1 for the norm after the last one.
        sublayer: "self_attention", "memory_attention" or "feed_forward"; "" for that norm.
        part: "query", "key", "value", "output"; "value", "forget" of the SSRU; "inner", "outer";
            or "norm".
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
    # The path begins with the model's name, which Keras numbers: "transformer_1/encoder/...".
    return str(weight.path).partition("/")[2]


def layer_weights(model: Transformer) -> Iterator[LayerWeight]:
    """Yields the weights of encoder and decoder, without tables and the bias of the logits."""
    for weight in model.trainable_variables:
        if matched := _STACK.fullmatch(name_of(weight)):
            # The norm after the last layer is in none: `layer`, `sublayer` and `part` are None.
            stack, layer, sublayer, part, kind = matched.groups()
            yield LayerWeight(stack, int(layer or -1), sublayer or "", part or "norm", kind, weight)


def named_values(model: Transformer) -> dict[str, NDArray[np.float32]]:
    """Returns the values of all trainable weights by name (see `name_of`)."""
    return {name_of(weight): weight.numpy() for weight in model.trainable_variables}


def load_weights(model: Transformer, checkpoint: str) -> None:
    """Restores a model's weights from a checkpoint, or their moving average if it has one.

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
    # TensorFlow checks little of a checkpoint's graph of objects: a wrong one raises any error.
    except Exception as error:
        problem = f"{checkpoint} does not fit the model, or is damaged ({reason_of(error)})"
        fix = "give another --checkpoint, or use the source code that it was trained with"
        raise UserError(f"{problem}: {fix}.") from error


def check_same_weights(model: keras.Model, checkpoint: str) -> None:
    """Checks that a checkpoint has exactly the weights of a model.

    TensorFlow would silently leave out weights that the model does not have: those of other layers,
    or of a layer whose source was edited.

    Raises:
        ValueError: weights are missing or superfluous; the message names them.
    """
    view = tf.train.CheckpointView(checkpoint)
    # The model's objects by their numbers in the checkpoint.
    matched = view.match(tf.train.Checkpoint(model=model))
    extra = [path for number, path in _weights_in(checkpoint, view) if number not in matched]
    restored = {id(restorable) for restorable in matched.values()}
    missing = [name_of(weight) for weight in model.weights if id(weight) not in restored]
    if extra:
        raise ValueError(f"it has, unlike the model, {len(extra)} weights: {', '.join(extra)}")
    if missing:
        raise ValueError(f"it lacks {len(missing)} weights: {', '.join(missing)}")


def _weights_in(checkpoint: str, view: tf.train.CheckpointView) -> Iterator[tuple[int, str]]:
    """Yields the number and path of each weight of the model that a checkpoint was written of.

    Paths begin below the model, and are of TensorFlow's graph of objects, not Keras's names.

    Args:
        checkpoint: the path of the checkpoint.
        view: its graph of objects.
    """
    reader = tf.train.load_checkpoint(checkpoint)
    paths = list(_paths(view, 0))  # Of all objects, from the root, object 0.
    # A variable has several paths, since an optimizer lists the weights. The checkpoint's key is
    # the shortest of them.
    variables = {number for number, path in paths if reader.has_tensor(_VALUE.format(path))}
    for number, path in paths:
        # Keras's `compile`, which callbacks need, makes the optimizer a part of the model.
        is_in_model = path.startswith("model/") and not path.startswith("model/optimizer/")
        if is_in_model and number in variables:
            yield number, path.removeprefix("model/")


def _paths(view: tf.train.CheckpointView, parent: int, base: str = "") -> Iterator[tuple[int, str]]:
    """Yields the number and path of each object below `parent`, at any depth.

    Args:
        view: a checkpoint's graph of objects.
        parent: the number of an object.
        base: its path, with a slash at the end, before the paths of the objects below it.
    """
    for name, number in view.children(parent).items():
        yield number, f"{base}{name}"
        yield from _paths(view, number, f"{base}{name}/")


def check_exportable(
    model: Transformer, engine: str, settings: Mapping[str, tuple[Any, Any]]
) -> None:
    """Checks that another engine can compute a model.

    Args:
        model: the model, built.
        engine: the engine's name, for the error.
        settings: the model's value and the supported values of each setting, by name. They extend
            and replace the settings that are checked for all engines.

    Raises:
        UserError: the engine does not support a setting, or the model has weights of the user's own
            layers.
    """
    user_weights = [name for name in map(name_of, model.weights) if not _OURS.fullmatch(name)]
    for_all_engines = {
        "Transformer.neighbourhood": (model.neighbourhood, [None]),
        "LayerConfig.norm": (model.config.norm, ["LayerNorm"]),
        "LayerConfig.decoder_self_attention": (model.config.decoder_self_attention, ["attention"]),
        "Transformer.first_position": (model.settings.first_position, [0]),
        "Transformer.start_id": (model.settings.start_id, [PAD_ID]),
        "Transformer.source_eos": (model.settings.source_eos, [True]),
    }
    # The only supported list of weights of the user's own layers is the empty one.
    check_supported(engine, {**for_all_engines, **settings, "weights": (user_weights, [[]])})


def check_supported(engine: str, settings: Mapping[str, tuple[Any, Any]]) -> None:
    """Checks that an engine supports the values of settings.

    Args:
        engine: the engine's name, for the error.
        settings: the model's value and the supported values of each setting, by name.

    Raises:
        UserError: the engine does not support a value.
    """
    for name, (value, supported) in settings.items():
        if value not in supported:
            problem = f"the model has {name} = {value!r}, which {engine} cannot hold"
            expected = f"expected {' or '.join(map(repr, supported))}"
            raise UserError(f"{problem}, {expected}: give --format=saved_model.")


def logits_bias(model: Transformer) -> NDArray[np.float32]:
    """Returns a copy of the bias of the logits, [vocab]; zeros where the model has none."""
    bias = model.logits_bias
    return np.zeros(model.vocab_size, np.float32) if bias is None else np.array(bias)


def save_weights(model: Transformer, folder: Path, step: int) -> None:
    """Writes the weights as the only checkpoint of a folder, step-<step>; deletes all others.

    Raises:
        UserError: the checkpoint cannot be written.
    """
    CheckpointFolder(folder).write(tf.train.Checkpoint(model=model), step)
