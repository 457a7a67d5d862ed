"""A model.json that anyone may have written, looked through before a Transformer is built of it."""

import dataclasses
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from t2t_repro.config.values import constructor_of
from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import OWN_SOFTMAX, OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.strangers.checkpoint_objects import CheckpointObjects

_KEYS = {
    "trainable", "dtype", "vocab_size", "num_layers", "config", "positional_encoding", "max_length",
    "neighbourhood", "tied_embeddings", "source_vocab_size", "logits_bias",
}  # fmt: skip
_OF_TRANSFORMER = {
    name: parameter.default
    for name, parameter in inspect.signature(constructor_of(Transformer)).parameters.items()
    if name in _KEYS and parameter.default is not parameter.empty
}
_OF_LAYERS = {field.name: field.default for field in dataclasses.fields(LayerConfig)}

Shape = tuple[int, ...]

_ATTENTIONS = {"encoder": ["self_attention"], "decoder": ["self_attention", "memory_attention"]}

_LAYER = re.compile(r"layer_\d+$", re.ASCII)


def read_model_json(path: Path, precisions: Collection[str]) -> dict[str, Any]:
    """Returns the arguments that a Transformer is made of, its "dtype" among them.

    What it does not say, being older than a choice, is the paper's: nothing is left to bindings.

    Args:
        path: of the file.
        precisions: what "dtype" may be; Keras would import a module whose name is in it.

    Raises:
        UserError: it does not describe a Transformer.
    """
    try:
        sizes = dict(read_json(path))
    except (TypeError, ValueError) as error:
        raise no_transformer(path) from error
    is_known = sizes.keys() <= _KEYS and isinstance(sizes.get("trainable", True), bool)
    if not is_known or sizes.get("dtype") not in precisions:
        raise no_transformer(path)
    config = sizes.get("config")
    if not isinstance(config, dict | None):
        raise no_transformer(path)
    return _OF_TRANSFORMER | sizes | {"config": _OF_LAYERS | (config or {})}


def check_shapes(path: Path, sizes: Mapping[str, Any], checkpoint: str) -> None:
    """Holds the matrices that a model.json describes against those of a checkpoint.

    So nothing is made of another size than what the checkpoint's files hold.

    Args:
        path: of the model.json.
        sizes: what it says.
        checkpoint: its prefix.

    Raises:
        UserError: they differ; or there are no sizes, or no whole checkpoint.
    """
    stored = CheckpointObjects(checkpoint)
    try:
        found = next(_differing(sizes, stored), None)
    except (KeyError, TypeError, ValueError) as error:
        raise no_transformer(path) from error
    if found:
        name, described, there = found
        raise UserError(
            f"{path} describes a model {_has(described, name)}, but {checkpoint} is of one "
            f"{_has(there, name)}: put back the file that the training run wrote, or that "
            "checkpoint."
        )


def _differing(
    sizes: Mapping[str, Any], stored: CheckpointObjects
) -> Iterator[tuple[str, Shape | None, Shape | None]]:
    """Matrices whose shapes differ: their names, what is described, what is stored."""
    seen: set[str] = set()
    for name, shape in _matrices(sizes):
        seen |= {name, name.partition("/")[0], "/".join(name.split("/")[:2])}
        if (there := stored.shape(f"model/{name}")) != shape:
            yield name, shape, there
    parts = [name for name in stored.parts("model") if name.startswith(("own_", "logits_"))]
    for stack in ("encoder", "decoder"):
        parts += [
            f"{stack}/{name}" for name in stored.parts(f"model/{stack}") if _LAYER.match(name)
        ]
    for stack, attentions in _ATTENTIONS.items():
        for attention in attentions:
            name = f"{stack}/layer_0/{attention}/query_projection"
            parts += [f"{name}/bias"] * ("bias" in stored.parts(f"model/{name}"))
    yield from ((name, None, ()) for name in sorted(parts) if name not in seen)


def _has(shape: Shape | None, name: str) -> str:
    if shape is None:
        return f"without {name}"
    return f"with {name}" + (f" of shape {list(shape)}" if shape else "")


def _matrices(sizes: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    """Where a Transformer has its matrices, and biases that it need not have; their shapes."""
    config = LayerConfig.of(sizes["config"])
    d_model, rows = config.d_model, sizes["vocab_size"]
    tied = sizes["tied_embeddings"]
    tables = {"embedding": rows}
    if tied in OWN_SOURCE_EMBEDDING:
        tables["own_source_embedding"] = sizes["source_vocab_size"] or rows
    if tied in OWN_SOFTMAX:
        tables["own_softmax"] = rows
    if sizes["positional_encoding"] == "learned":
        tables["positional_encoding"] = tables["target_positional_encoding"] = sizes["max_length"]
    for name, length in tables.items():
        yield f"{name}/table", (length, d_model)
    if sizes["logits_bias"]:
        yield "logits_bias", (rows,)
    keys, values = config.num_heads * config.key_depth, config.num_heads * config.value_depth
    attention: dict[str, Shape] = {
        "query_projection": (d_model, keys),
        "key_projection": (d_model, keys),
        "value_projection": (d_model, values),
        "output_projection": (values, d_model),
    }
    feed_forward = {"inner": (d_model, config.d_ff), "outer": (config.d_ff, d_model)}
    for number in range(sizes["num_layers"]):
        for stack, attentions in _ATTENTIONS.items():
            for part in (*attentions, "feed_forward"):
                kernels = attention if part in attentions else feed_forward
                for name, shape in kernels.items():
                    path = f"{stack}/layer_{number}/{part}/{name}"
                    yield f"{path}/_kernel", shape
                    if part in attentions and config.attention_biases:
                        yield f"{path}/bias", shape[1:]


def no_transformer(path: Path) -> UserError:
    """Returns what to raise where a model.json describes no Transformer."""
    return UserError(
        f"{path} does not describe a Transformer: put back the file that the training run wrote, "
        "or give another --model_dir."
    )
