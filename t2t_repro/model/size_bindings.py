"""The sizes of a model that was not configured here, as gin has them."""

import dataclasses
import inspect

from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer

_OF_DATA = ("vocab_size", "source_vocab_size")
"""What the subwords of the data say."""


def size_bindings(model: Transformer) -> str:
    """Returns the bindings that make a model of a model's sizes, a line each.

    A run that starts from an imported model, by `train.init_from`, includes them. Defaults are left
    out, and so are the vocabularies' sizes, which follow from the subwords.
    """
    config = model.get_config()
    layers = config["config"]
    of_layers = {
        field.name: layers[field.name]
        for field in dataclasses.fields(LayerConfig)
        if layers[field.name] != field.default
    }
    arguments = inspect.signature(Transformer.__init__).parameters
    of_model = {
        name: config[name]
        for name, argument in arguments.items()
        if name in config.keys() - {"config", "name", "dtype", "trainable", *_OF_DATA}
        and config[name] != argument.default
    }
    lines = [f"Transformer.{name} = {value!r}" for name, value in of_model.items()]
    lines += [f"LayerConfig.{name} = {value!r}" for name, value in of_layers.items()]
    return "".join(f"{line}\n" for line in lines)
