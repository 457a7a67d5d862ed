"""Loads checkpoints of the original Tensor2Tensor (T2T) into our `Transformer`.

T2T names its variables `transformer/body/<stack>/layer_<i>/<sublayer>/...`. Its kernels have the
layout of ours, so loading is a matter of names. Only the embedding may be stored in shards.

The shapes of the weights give all sizes but the number of heads. hparams.json gives that number,
and the settings that change what is computed.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.formats import imported
from t2t_repro.formats.imported import Array, SettingsFile, WeightsFile
from t2t_repro.model.positional_encoding import SINUSOIDS
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import layer_weights

# Positions of tables with a vector of the target space; T2T trained on sentences up to 256.
MAX_LENGTH = 2048

_STEP = "global_step"
_BODY = "transformer/body"
_TARGET_SPACE = f"{_BODY}/target_space_embedding/kernel"
_FINAL_NORM = f"{_BODY}/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"
_SHARD = re.compile(r"transformer/symbol_modality_\d+_\d+/shared/weights_(\d+)")

_NAMES = imported.WeightNames("tensor2tensor")


def transformer_from_t2t(
    checkpoint: str | Path,
    hparams: str | Path | None = None,
    subwords: int | None = None,
    target_space: int | None = None,
) -> Transformer:
    """Builds the Transformer that T2T trained, with its weights.

    T2T's Transformer adds a row of a table of 32, "target_space_embedding", to the encoder's input,
    one for each kind of text that it can write. A model of one task trains one row. The paper has
    no such vector. Added at every position it is only another positional encoding, so positions
    are then tables of `MAX_LENGTH` rows, as learned ones are: the source's with the vector added,
    the target's without.

    Args:
        checkpoint: the directory that t2t-trainer wrote, for its latest checkpoint, or one of its
            checkpoints (`.../model.ckpt-1200`).
        hparams: the run's hparams.json; by default the one beside the checkpoint.
        subwords: the size of the vocabulary, to be checked if given. T2T's `vocab_divisor` rounds
            the number of embedding rows up.
        target_space: the row of the checkpoint's `target_space_embedding` that was trained.
            None where the checkpoint has no such table.

    Returns:
        the model, built and loaded.

    Raises:
        UserError: a file is missing, the files do not belong together, or the model is one that
            `Transformer` cannot be.
    """
    file = _read_variables(checkpoint)
    folder = file.path if file.path.is_dir() else file.path.parent
    settings = read_hparams(Path(hparams) if hparams else folder / "hparams.json")
    table = _embedding_table(file)
    _check_vocabulary(subwords, settings.size("vocab_divisor", 1), len(table))
    vector = _target_space_vector(file, target_space)
    learned: dict[str, Any] = {"positional_encoding": "learned", "max_length": MAX_LENGTH}
    positions = {"positional_encoding": "concatenated"} if vector is None else learned
    sizes = sizes_of(settings, {name: array.shape for name, array in file.arrays.items()})
    model = Transformer(len(table), **sizes, **positions)
    model.build()
    model.embedding.table.assign(table)
    if vector is not None:
        _set_positions(model, vector)
    # T2T names norms after the hook that they run in, for pre-norm "prepostprocess".
    hook = "layer_prepostprocess" if model.config.normalization == "pre" else "layer_postprocess"
    for weight in layer_weights(model):
        name = _NAMES.of(weight, hook=hook)
        weight.variable.assign(file.value(name, tuple(weight.variable.shape)))
    return model


def _check_vocabulary(subwords: int | None, divisor: int, rows: int) -> None:
    """Checks that a vocabulary of so many `subwords` fits an embedding of `rows`; None fits any.

    Raises:
        UserError: the number of subwords, rounded up to a multiple of `divisor`, is not `rows`.
    """
    # -(-a // b) is a / b, rounded up.
    if subwords is not None and rows != -(-subwords // divisor) * divisor:
        rounded = f"{subwords} subwords, rounded up to a multiple of {divisor} (vocab_divisor)"
        problem = f"the vocabulary has {rounded}, but the embedding has {rows} rows"
        raise UserError(f"{problem}: give the vocabulary that it was trained with.")


def _set_positions(model: Transformer, vector: Array) -> None:
    """Fills the tables of positions with T2T's sinusoids, the source's plus `vector` [d_model]."""
    sinusoids = SINUSOIDS["concatenated"](np.arange(MAX_LENGTH), model.config.d_model)
    model.positional_encoding.table.assign(sinusoids + vector)
    model.target_positional_encoding.table.assign(sinusoids)


def step_of_t2t(checkpoint: str | Path) -> int:
    """Returns the step of a T2T checkpoint, or 0 if unknown.

    Raises:
        UserError: the checkpoint is missing or damaged.
    """
    return int(_read_variables(checkpoint, _STEP).arrays.get(_STEP, 0))


def _read_variables(checkpoint: str | Path, start: str = "transformer/") -> WeightsFile:
    """Reads the variables whose names begin with `start`: by default all weights."""

    def read(path: Path) -> dict[str, NDArray]:
        # Only a folder has a state, which names its newest checkpoint.
        state = tf.train.get_checkpoint_state(str(path))
        # The state has the path at the time of writing; the folder may have been moved since.
        newest = path / Path(state.model_checkpoint_path).name if state else path
        reader = tf.train.load_checkpoint(str(newest))
        shapes = reader.get_variable_to_shape_map()
        return {name: reader.get_tensor(name) for name in shapes if name.startswith(start)}

    return WeightsFile(Path(checkpoint), read)


def read_hparams(path: Path) -> SettingsFile:
    """Reads an hparams.json and checks it.

    Raises:
        UserError: the file is damaged, or its model is not one that `Transformer` can be.
    """
    fix = 'copy it there, or write {"num_heads": 8}, with the number of heads that the model has'
    expected = f"the hparams.json that t2t-trainer writes beside its checkpoints: {fix}"
    hparams = SettingsFile(path, expected=expected)
    hparams.require_all(imported.table_of("tensor2tensor.yml")["hparams"])
    return hparams


def sizes_of(hparams: SettingsFile, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Returns a model's layers and sizes, as arguments of the `Transformer`.

    The sizes of the vocabularies and the kind of positions are not among them.

    Args:
        hparams: has the number of heads and the rates of dropout.
        shapes: by name, the shape of each variable; a kernel's is [inputs, outputs].
    """
    layer = f"{_BODY}/encoder/layer_0"
    d_model, d_ff = shapes[f"{layer}/ffn/conv1/kernel"]
    attention = f"{layer}/self_attention/multihead_attention"
    heads = hparams.size("num_heads")
    return {
        "config": LayerConfig(
            d_model=d_model,
            d_ff=d_ff,
            num_heads=heads,
            d_k=shapes[f"{attention}/k/kernel"][1] // heads,
            d_v=shapes[f"{attention}/v/kernel"][1] // heads,
            dropout=hparams.value("layer_prepostprocess_dropout", 0.0),
            attention_dropout=hparams.value("attention_dropout", 0.0),
            relu_dropout=hparams.value("relu_dropout", 0.0),
            # Only a pre-norm model has a norm after its last layer.
            normalization="pre" if _FINAL_NORM in shapes else "post",
        ),
        "num_layers": imported.count_layers(shapes, f"{_BODY}/encoder/layer_"),
        "num_decoder_layers": imported.count_layers(shapes, f"{_BODY}/decoder/layer_"),
    }


def _embedding_table(file: WeightsFile) -> Array:
    """Joins the shards of the embedding that source, target and softmax share: [vocab, d_model].

    Raises:
        UserError: there is not exactly one such embedding, or no encoder.
    """
    matches = [match for match in map(_SHARD.fullmatch, file.arrays) if match]
    shards = {int(match[1]): file.arrays[match[0]] for match in matches}
    kernel = f"{_BODY}/encoder/layer_0/ffn/conv1/kernel"
    # Several embeddings have shards of the same numbers, so that `shards` has fewer than `matches`.
    if not 0 < len(shards) == len(matches) or kernel not in file.arrays:
        names = f"symbol_modality_32000_512/shared/weights_0 and {kernel}"
        problem = f"{file.path} has not one set of variables such as {names}"
        raise UserError(f"{problem}: give a T2T Transformer (1.3 or later) with one embedding.")
    return np.concatenate([shards[number] for number in sorted(shards)])


def _target_space_vector(file: WeightsFile, target_space: int | None) -> Array | None:
    """Returns the vector [d_model] that T2T adds at every position of the source.

    `target_space` is T2T's number of the kind of text that a model writes. The result is None if
    that is None and the file has no such vectors.

    Raises:
        UserError: the file has no vector of this number, or has vectors and the number is None.
    """
    table = file.arrays.get(_TARGET_SPACE, np.zeros((0, 0), np.float32))
    if not len(table) and target_space is None:
        return None
    if target_space not in range(len(table)):
        rows = f"{file.path} has a target_space_embedding of {len(table)} rows"
        fix = "leave it out if there are none, or give the trained one (target_space=0 since 1.5.2)"
        raise UserError(f"target_space is {target_space}, but {rows}: {fix}.")
    return table[target_space]
