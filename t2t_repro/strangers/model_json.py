"""A model.json that anyone may have written, looked through before a Transformer is built of it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.strangers.json_files import read_json

_KEYS = {
    "trainable", "dtype", "vocab_size", "num_layers", "config", "positional_encoding", "max_length",
    "neighbourhood", "tied_embeddings", "source_vocab_size",
}  # fmt: skip
_FLOAT_BYTES = 4


def read_model_json(path: Path, precisions: Collection[str]) -> dict[str, Any]:
    """Returns the arguments that a Transformer is made of, its "dtype" among them.

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
    return sizes


def check_size(path: Path, sizes: Mapping[str, Any], weight_bytes: int) -> None:
    """Holds the sizes of the largest matrices against the files that should hold them.

    Args:
        path: of the model.json.
        sizes: what it says.
        weight_bytes: of the largest checkpoint beside it.

    Raises:
        UserError: they are larger, or no sizes.
    """
    try:
        config = LayerConfig.of(sizes.get("config") or {})
        heads = config.num_heads * (config.key_depth + config.value_depth)
        rows = sizes["vocab_size"] + (sizes.get("source_vocab_size") or 0)
        rows += sizes.get("max_length") or 0
        rows += sizes.get("num_layers", 1) * (config.d_ff + heads)
        parameters = int(rows * config.d_model)
    except (KeyError, TypeError, ValueError) as error:
        raise no_transformer(path) from error
    if parameters * _FLOAT_BYTES > weight_bytes:
        raise UserError(
            f"{path} describes a model of more than {parameters:,} parameters, but the checkpoints "
            f"there have {weight_bytes:,} bytes at most: put back the file that the training run "
            "wrote, or the checkpoints."
        )


def no_transformer(path: Path) -> UserError:
    """Returns what to raise where a model.json describes no Transformer."""
    return UserError(
        f"{path} does not describe a Transformer: put back the file that the training run wrote, "
        "or give another --model_dir."
    )
