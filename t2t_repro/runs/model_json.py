"""model.json: a Transformer's sizes. They are checked, since anyone may have written the file."""

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from t2t_repro.config.checks import differing_values
from t2t_repro.config.gin_files import import_hint, read_gin
from t2t_repro.config.values import Precision, check_value
from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.model import settings
from t2t_repro.model.settings import LayerConfig, Rows, TransformerSettings

if TYPE_CHECKING:
    from t2t_repro.model.transformer import Transformer

_HINTS = get_type_hints(TransformerSettings, include_extras=True)
_HINTS |= {"vocab_size": Rows, "dtype": Precision, "trainable": bool}
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(TransformerSettings)}


def read_model_json(path: Path) -> dict[str, Any]:
    """Reads the arguments of a Transformer, including its "dtype".

    Arguments that an older file lacks have their defaults. Bindings of gin have no influence.

    Raises:
        UserError: the file does not describe a Transformer.
    """
    from t2t_repro.model.stack import check_names  # Imports TensorFlow.

    try:
        sizes = read_json(path)
        layers = LayerConfig.of(dict(sizes.pop("config", None) or {}))
        for name, value in sizes.items():
            # A KeyError if the Transformer has no such argument.
            check_value(name, value, _HINTS[name])
        check_names(layers)
        # A KeyError if one is missing: they have no usable default.
        required = {name: sizes[name] for name in ("vocab_size", "dtype")}
        return _DEFAULTS | sizes | required | {"config": layers.to_dict()}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise not_a_transformer(path, error) from error


def check_fits_checkpoint(path: Path, sizes: Mapping[str, Any], checkpoint: str) -> None:
    """Checks that a model is not larger than its checkpoint.

    Call it before the model is built: a model.json that somebody else wrote could ask for more
    memory than there is.

    Args:
        path: of model.json, for the error.
        sizes: see `read_model_json`.
        checkpoint: the path without the endings of its files.

    Raises:
        UserError: the checkpoint is smaller than the model's matrices in float32.
    """
    files = Path(checkpoint).parent.glob(f"{Path(checkpoint).name}.data-?????-of-?????")
    size = sum(file.stat().st_size for file in files)
    needed = 4 * parameter_count(sizes)  # float32
    if needed > size:
        problem = f"{path} describes a model of {needed:,} bytes or more"
        fix = "put back the file that the training run wrote, or the whole checkpoint"
        raise UserError(f"{problem}, but {checkpoint} has {size:,}: {fix}.")


def parameter_count(sizes: Mapping[str, Any]) -> int:
    """Counts the parameters of a Transformer's matrices.

    The few parameters of biases and norms do not count.

    Args:
        sizes: see `read_model_json`.
    """
    # Every matrix has an axis of d_model: count the rest of its shape, and multiply at the end.
    config = LayerConfig.of(sizes["config"])
    table_rows = rows = sizes["vocab_size"]
    if sizes["tied_embeddings"] in settings.OWN_SOURCE_EMBEDDING:
        table_rows += sizes["source_vocab_size"] or rows
    if sizes["tied_embeddings"] in settings.OWN_SOFTMAX:
        table_rows += rows
    if sizes.get("positional_encoding") == "learned":
        table_rows += 2 * (sizes["max_length"] or 0)  # Of both sides.
    attention = 2 * config.num_heads * (config.key_depth + config.value_depth)  # Q, K; V, out.
    encoder_layers, decoder_layers = depths_of(sizes)
    vectors = table_rows + (encoder_layers + decoder_layers) * (attention + 2 * config.d_ff)
    # Cross-attention is counted above; this is self-attention, or the two matrices of an SSRU.
    vectors += decoder_layers * (2 * config.d_model if config.is_recurrent else attention)
    return config.d_model * vectors


def depths_of(sizes: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the numbers of layers of encoder and decoder, which are the same by default."""
    return sizes["num_layers"], sizes.get("num_decoder_layers") or sizes["num_layers"]


def sizes_of(model: "Transformer") -> dict[str, Any]:
    """Returns the content of model.json for a model: see `read_model_json`."""
    # Through JSON, so that it equals the content of a file: lists in place of tuples.
    sizes = json.loads(json.dumps(model.get_config())) | {"dtype": model.dtype_policy.name}
    # Keras numbers the models of a process in their names.
    del sizes["name"]
    return sizes


def differing_sizes(
    saved: Mapping[str, Any], model: "Transformer", ignored: Collection[str] = ()
) -> list[str]:
    """Compares the sizes of a model directory with those of a model.

    Args:
        saved: see `read_model_json`.
        model: the model that is compared with them.
        ignored: names of arguments of the Transformer that are not compared.

    Returns:
        the differences, such as "config.d_model 128 there, 256 now". Settings that only training
        uses, such as dropout, are not compared.
    """
    return differing_values(_comparable(saved, ignored), _comparable(sizes_of(model), ignored))


def _comparable(sizes: Mapping[str, Any], ignored: Collection[str]) -> dict[str, Any]:
    """Returns the sizes without those `ignored` and those that only training uses."""
    layers = {k: v for k, v in sizes["config"].items() if k not in LayerConfig.TRAINING_ALONE}
    return {k: v for k, v in sizes.items() if k not in ignored} | {"config": layers}


def not_a_transformer(path: Path, error: Exception) -> UserError:
    """Returns the error about a model.json that does not describe a Transformer.

    Its hint names the user's modules that may have to be imported.
    """
    config_gin = path.with_name("config.gin")
    hint = import_hint(read_gin(config_gin)) if config_gin.is_file() else ""
    fix = f"put back the file that the training run wrote{hint}"
    return UserError(f"{path} does not describe a Transformer ({error}): {fix}.")
