"""Loads checkpoints of the original Tensor2Tensor (T2T) into our `Transformer`.

T2T writes its variables as `transformer/body/<stack>/layer_<i>/<sublayer>/...`. The kernels have
the layout of ours, so that loading is a matter of names; the embedding alone may be in shards.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_repro.config.values import Count, fits
from t2t_repro.errors import UserError, reason_of
from t2t_repro.formats.tensor2tensor.hparams import (
    BODY,
    layer_config,
    number_of_layers,
    read_hparams,
)
from t2t_repro.formats.tensor2tensor.t2t_target_space import with_source_vector
from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.decoder import Decoder, DecoderLayer
from t2t_repro.model.encoder import Encoder, EncoderLayer
from t2t_repro.model.feed_forward import FeedForward
from t2t_repro.model.transformer import Transformer
from t2t_repro.strangers.checkpoint_index import check_index, listed_checkpoints

NamedVariables = Iterator[tuple[str, keras.Variable]]

CheckpointReader = Any
"""What tf.train.load_checkpoint returns; TensorFlow has no public name for it."""

EMBEDDING_SHARD = re.compile(r"transformer/symbol_modality_\d+_\d+/shared/weights_(\d+)")
TARGET_SPACE = f"{BODY}/target_space_embedding/kernel"


def transformer_from_t2t(
    checkpoint: str | Path,
    hparams: str | Path | None = None,
    subwords: int | None = None,
    target_space: int | None = None,
) -> Transformer:
    """Builds the Transformer that T2T trained, with its weights.

    Args:
        checkpoint: the directory that t2t-trainer wrote, of whose checkpoints the latest is taken,
            or one of them (`.../model.ckpt-1200`).
        hparams: the run's hparams.json; by default the one beside the checkpoint.
        subwords: how many subwords the vocabulary has, to be checked if given. T2T's
            `vocab_divisor` rounds the rows of the embedding up.
        target_space: T2T's number of the kind of text it was trained to write, where the
            checkpoint has a `target_space_embedding`. See `with_source_vector`.

    Returns:
        The model, built and loaded.

    Raises:
        UserError: if a file is missing, files do not fit one another, or the model is one that
            `Transformer` is not.
    """
    path = Path(checkpoint)
    folder = path if path.is_dir() else path.parent
    settings = read_hparams(Path(hparams) if hparams else folder / "hparams.json")
    with _open_checkpoint(checkpoint) as reader:
        shapes = reader.get_variable_to_shape_map()
        rows = len(_embedding_table(reader, checkpoint))
        if subwords is not None:
            _check_vocabulary(subwords, rows, settings.get("vocab_divisor") or 1)
        vector = _target_space_vector(reader, target_space, checkpoint)
        layers = number_of_layers(settings, shapes)
        layer = layer_config(settings, shapes)
        model = Transformer(rows, layers, layer, positional_encoding="concatenated")
        _load(model, reader, checkpoint)
    return model if vector is None else with_source_vector(model, vector)


def step_of_t2t(checkpoint: str | Path) -> int:
    """The step that a T2T checkpoint was written at, or 0 where it does not say.

    Raises:
        UserError: there is no checkpoint.
    """
    with _open_checkpoint(checkpoint) as reader:
        if not reader.has_tensor("global_step"):
            return 0
        step = _tensor(reader, "global_step", checkpoint)
    if np.ndim(step) or not isinstance(step, int | np.integer) or step < 0:
        raise UserError(f"{checkpoint} has global_step {step!r}, expected a number of steps.")
    return int(step)


def _load(model: Transformer, reader: CheckpointReader, path: str | Path) -> None:
    """Sets all weights; variables that a model has no place for, such as Adam's, are ignored."""
    model.build()
    values = [(model.embedding.table, _embedding_table(reader, path))]
    for name, variable in _body_variables(model):
        values.append((variable, _read(reader, name, path)))
        _check_value(name, *values[-1], path)
    _check_value("the embedding", *values[0], path)
    for variable, value in values:
        variable.assign(value)


def _body_variables(model: Transformer) -> NamedVariables:
    """Pairs T2T's names with the variables of the encoder and the decoder."""
    yield from _stack_variables(f"{BODY}/encoder", model.encoder)
    yield from _stack_variables(f"{BODY}/decoder", model.decoder)


def _stack_variables(name: str, stack: Encoder | Decoder) -> NamedVariables:
    # T2T names a norm after the hook it runs in, and its pre-norm hook "prepostprocess".
    is_pre = stack.config.normalization == "pre"
    norm = f"{'layer_prepostprocess' if is_pre else 'layer_postprocess'}/layer_norm"
    for i in range(stack.num_layers):
        yield from _layer_variables(f"{name}/layer_{i}", norm, stack.layers[i])
    if stack.final_norm:
        yield from _norm_variables(f"{name}/{norm}", stack.final_norm)


def _layer_variables(name: str, norm: str, layer: EncoderLayer | DecoderLayer) -> NamedVariables:
    attentions = [("self_attention", layer.self_attention, layer.around_self_attention)]
    if isinstance(layer, DecoderLayer):
        attentions.append(
            ("encdec_attention", layer.memory_attention, layer.around_memory_attention)
        )
    for kind, attention, around in attentions:
        yield from _attention_variables(f"{name}/{kind}/multihead_attention", attention)
        yield from _norm_variables(f"{name}/{kind}/{norm}", around.norm)
    yield from _feed_forward_variables(f"{name}/ffn", layer.feed_forward)
    yield from _norm_variables(f"{name}/ffn/{norm}", layer.around_feed_forward.norm)


def _attention_variables(name: str, attention: MultiHeadAttention) -> NamedVariables:
    yield f"{name}/q/kernel", attention.query_projection.kernel
    yield f"{name}/k/kernel", attention.key_projection.kernel
    yield f"{name}/v/kernel", attention.value_projection.kernel
    yield f"{name}/output_transform/kernel", attention.output_projection.kernel


def _feed_forward_variables(name: str, feed_forward: FeedForward) -> NamedVariables:
    for conv, dense in (("conv1", feed_forward.inner), ("conv2", feed_forward.outer)):
        yield f"{name}/{conv}/kernel", dense.kernel
        yield f"{name}/{conv}/bias", dense.bias


def _norm_variables(name: str, norm: keras.layers.LayerNormalization) -> NamedVariables:
    yield f"{name}/layer_norm_scale", norm.gamma
    yield f"{name}/layer_norm_bias", norm.beta


@contextmanager
def _open_checkpoint(path: str | Path) -> Iterator[CheckpointReader]:
    prefix = _prefix(Path(path))
    if Path(f"{prefix}.index").is_file():
        check_index(prefix)
    try:
        reader = tf.train.load_checkpoint(str(prefix))
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"{path} holds no checkpoint that TensorFlow can read, expected a directory with "
            "the file 'checkpoint', or a prefix such as .../model.ckpt-1200 of an .index and a "
            ".data file: check the path."
        ) from error
    yield reader


def _prefix(path: Path) -> Path:
    """Where a checkpoint is: the latest one of a directory, or the path itself."""
    names = listed_checkpoints(path) if path.is_dir() else []
    return path / names[-1] if names else path


def _tensor(reader: CheckpointReader, name: str, path: str | Path) -> np.ndarray:
    try:
        return reader.get_tensor(name)
    # Of damaged data TensorFlow raises errors of half a dozen kinds here.
    except (IndexError, ValueError, RuntimeError, MemoryError, tf.errors.OpError) as error:
        raise UserError(
            f"{path} cannot be read ({name}: {reason_of(error)}): copy the checkpoint again."
        ) from error


def _read(reader: CheckpointReader, name: str, path: str | Path) -> np.ndarray:
    if not reader.has_tensor(name):
        raise UserError(
            f"{path} has no variable {name}, expected one for every weight of the model: give the "
            "checkpoint of a Transformer with the model's num_layers and normalization."
        )
    return _tensor(reader, name, path)


def _embedding_table(reader: CheckpointReader, path: str | Path) -> np.ndarray:
    """Puts the shards of the shared embedding together: [vocab, d_model]."""
    shards = [
        (int(match[1]), name)
        for name in reader.get_variable_to_shape_map()
        if (match := EMBEDDING_SHARD.fullmatch(name))
    ]
    shards.sort()
    numbers = [number for number, _ in shards]
    scopes = {name.rpartition("/")[0] for _, name in shards}
    if not shards or len(scopes) > 1 or numbers != list(range(len(shards))):
        raise UserError(
            f"{path} has the shared embedding's shards {numbers} in {len(scopes)} scopes, expected "
            "transformer/symbol_modality_<vocab>_<width>/shared/weights_0, 1, ... of one: give a "
            "complete checkpoint of a model whose source, target and softmax share one embedding."
        )
    return _concatenated([_tensor(reader, name, path) for _, name in shards], path)


def _concatenated(shards: list[np.ndarray], path: str | Path) -> np.ndarray:
    if any(shard.ndim != 2 or shard.shape[1] != shards[0].shape[1] for shard in shards):
        shapes = [shard.shape for shard in shards]
        raise UserError(f"{path} has an embedding of {shapes}, expected [vocab, d_model] in parts.")
    return np.concatenate(shards)


def _check_value(name: str, variable: keras.Variable, value: np.ndarray, path: str | Path) -> None:
    if value.dtype != np.float32:
        raise UserError(f"{path} has {name} as {value.dtype}, expected float32.")
    if value.shape != tuple(variable.shape):
        raise UserError(
            f"{path} has {name} with the shape {value.shape}, expected {tuple(variable.shape)}: "
            "give a checkpoint whose layers are all of one size."
        )
    if not np.isfinite(value).all():
        raise UserError(
            f"{path} has values that are not finite in {name}: give a checkpoint that can be used."
        )


def _check_vocabulary(subwords: int, rows: int, divisor: int) -> None:
    if not fits(divisor, Count):
        raise UserError(f"hparams.json has vocab_divisor={divisor!r}, expected 1 or more.")
    expected = -(-subwords // divisor) * divisor
    if rows != expected:
        raise UserError(
            f"the vocabulary has {subwords} subwords, which T2T's vocab_divisor={divisor} makes "
            f"{expected} rows of the embedding, but the checkpoint has {rows}: give the vocabulary "
            "that it was trained with."
        )


def _target_space_vector(
    reader: CheckpointReader, target_space: int | None, path: str | Path
) -> np.ndarray | None:
    """What T2T adds to the encoder's input at every position: [d_model], or nothing."""
    if not reader.has_tensor(TARGET_SPACE):
        if target_space is None:
            return None
        raise UserError(
            f"target_space={target_space} was given, but {path} has no {TARGET_SPACE}: leave "
            "target_space out."
        )
    table = _tensor(reader, TARGET_SPACE, path)
    if table.ndim != 2 or table.dtype != np.float32:
        raise UserError(
            f"{path} has {TARGET_SPACE} with the shape {table.shape}, expected a table."
        )
    if target_space is None or not 0 <= target_space < len(table):
        raise UserError(
            f"target_space is {target_space}, but {path} has a target_space_embedding of "
            f"{len(table)} rows: give the row that the problem trained, target_space=0 for "
            "translation problems of T2T 1.5.2 and later; before, e.g. 3 for English subwords, 6 "
            "for French, 8 for German (SpaceID in T2T's data_generators/problem.py)."
        )
    vector: np.ndarray = table[target_space]
    return vector
