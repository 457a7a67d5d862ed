"""Loads checkpoints of the original Tensor2Tensor (T2T) into our `Transformer`.

T2T names its variables `transformer/body/<stack>/layer_<i>/<sublayer>/...`. Its kernels have the
layout of ours, so loading is a matter of names. Only the embedding may be stored in shards.
"""

import re
from pathlib import Path

import numpy as np
import tensorflow as tf
from keras import ops
from numpy.typing import NDArray

from t2t_repro.errors import UserError, reason_of
from t2t_repro.formats.tensor2tensor.hparams import (
    BODY,
    Shapes,
    layer_config,
    numbers_of_layers,
    read_hparams,
)
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight, layer_weights

EMBEDDING_SHARD = re.compile(r"transformer/symbol_modality_\d+_\d+/shared/weights_(\d+)")
TARGET_SPACE = f"{BODY}/target_space_embedding/kernel"

_SUBLAYERS = {
    "self_attention": "self_attention", "memory_attention": "encdec_attention",
    "feed_forward": "ffn",
}  # fmt: skip
_PARTS = {
    "query": "multihead_attention/q", "key": "multihead_attention/k",
    "value": "multihead_attention/v", "output": "multihead_attention/output_transform",
    "inner": "conv1", "outer": "conv2",
}  # fmt: skip
_KINDS = {"gamma": "layer_norm_scale", "beta": "layer_norm_bias"}

MAX_LENGTH = 2048
"""Positions of the tables that `with_source_vector` makes; T2T trained on sentences up to 256."""


def transformer_from_t2t(
    checkpoint: str | Path,
    hparams: str | Path | None = None,
    subwords: int | None = None,
    target_space: int | None = None,
) -> Transformer:
    """Builds the Transformer that T2T trained, with its weights.

    Args:
        checkpoint: the directory that t2t-trainer wrote, for its latest checkpoint, or one of its
            checkpoints (`.../model.ckpt-1200`).
        hparams: the run's hparams.json; by default the one beside the checkpoint.
        subwords: the size of the vocabulary, to be checked if given. T2T's `vocab_divisor` rounds
            the number of embedding rows up.
        target_space: the row of the checkpoint's `target_space_embedding` that was trained; see
            `with_source_vector`. None where the checkpoint has no such table.

    Returns:
        The model, built and loaded.

    Raises:
        UserError: a file is missing, the files do not belong together, or the model is one that
            `Transformer` cannot be.
    """
    reader = _Checkpoint(Path(checkpoint))
    settings = read_hparams(Path(hparams) if hparams else reader.folder / "hparams.json")
    table = _embedding_table(reader)
    divisor = settings.get("vocab_divisor") or 1
    if subwords is not None and len(table) != -(-subwords // divisor) * divisor:
        raise UserError(
            f"the vocabulary has {subwords} subwords, to be rounded up to a multiple of {divisor} "
            f"(T2T's vocab_divisor), but the checkpoint has {len(table)} rows of the embedding: "
            "give the vocabulary that it was trained with."
        )
    vector = _target_space_vector(reader, target_space)
    encoder_layers, decoder_layers = numbers_of_layers(reader.shapes)
    model = Transformer(
        len(table),
        encoder_layers,
        layer_config(settings, reader.shapes),
        positional_encoding="concatenated",
        num_decoder_layers=decoder_layers,
    )
    model.build()
    model.embedding.table.assign(table)
    # Variables that the model has no place for, such as Adam's, are ignored.
    for one in layer_weights(model):
        one.variable.assign(reader.read(_their_name(one, model.config.normalization)))
    return model if vector is None else with_source_vector(model, vector)


def with_source_vector(model: Transformer, vector: NDArray[np.float32]) -> Transformer:
    """Copies a model so that it adds a vector to the encoder's input at every position.

    T2T's Transformer adds a row of a table of 32, "target_space_embedding", one for each kind of
    text that it can write. A model of one task trains one row. The paper has no such vector. Added
    at every position it is only another positional encoding, so the copy's positions are tables of
    `MAX_LENGTH` rows, as learned ones are: the source's with the vector added, the target's
    without.

    Args:
        model: built, with the paper's tied embeddings and sinusoids, and no bias on the logits.
        vector: [d_model].
    """
    config = {**model.get_config(), "positional_encoding": "learned", "max_length": MAX_LENGTH}
    copy = Transformer.from_config(config)
    copy.build()
    for part in ("embedding", "encoder", "decoder"):
        getattr(copy, part).set_weights(getattr(model, part).get_weights())
    signal = np.asarray(model.positional_encoding.encode(ops.arange(MAX_LENGTH)))
    copy.positional_encoding.table.assign(signal + vector)
    copy.target_positional_encoding.table.assign(signal)
    return copy


def step_of_t2t(checkpoint: str | Path) -> int:
    """Returns the step at which a T2T checkpoint was written, or 0 where it does not say.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    reader = _Checkpoint(Path(checkpoint))
    return int(reader.read("global_step")) if "global_step" in reader.shapes else 0


class _Checkpoint:
    """A checkpoint, read by TensorFlow's own reader.

    Args:
        path: as in `transformer_from_t2t`.

    Attributes:
        folder: the directory of the checkpoint.
        shapes: the shape of every variable, by its name.

    Raises:
        UserError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path if path.is_dir() else path.parent
        state = tf.train.get_checkpoint_state(str(path))
        # A folder that was moved names its old place.
        prefix = path / Path(state.model_checkpoint_path).name if state else path
        try:
            self._reader = tf.train.load_checkpoint(str(prefix))
            self.shapes: Shapes = self._reader.get_variable_to_shape_map()
        except (ValueError, RuntimeError, tf.errors.OpError) as error:
            raise UserError(
                f"{path} is not a checkpoint that TensorFlow can read ({reason_of(error)}), "
                "expected a directory with the file 'checkpoint', or the prefix of an .index and "
                "a .data file, such as .../model.ckpt-1200: check the path."
            ) from error

    def read(self, name: str) -> np.ndarray:
        """Reads a variable.

        Raises:
            UserError: it is missing or damaged.
        """
        try:
            return np.asarray(self._reader.get_tensor(name))
        # TensorFlow raises several kinds of errors for damaged files.
        except (IndexError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise UserError(
                f"{self.path} cannot be read ({name}: {reason_of(error)}), expected the weights of "
                "a Transformer as its hparams.json says: copy the checkpoint again."
            ) from error


def _their_name(one: LayerWeight, normalization: str) -> str:
    """Returns T2T's name of a weight of encoder or decoder."""
    # T2T names a norm after the hook it runs in, and its pre-norm hook "prepostprocess".
    hook = "layer_prepostprocess" if normalization == "pre" else "layer_postprocess"
    part = _PARTS.get(one.part, f"{hook}/layer_norm")
    layer = f"layer_{one.layer}/{_SUBLAYERS[one.sublayer]}/" if one.sublayer else ""
    return f"{BODY}/{one.stack}/{layer}{part}/{_KINDS.get(one.kind, one.kind)}"


def _embedding_table(reader: _Checkpoint) -> NDArray[np.float32]:
    """Joins the shards of the shared embedding: [vocab, d_model]."""
    matches = filter(None, map(EMBEDDING_SHARD.fullmatch, reader.shapes))
    shards = sorted((int(match[1]), match[0]) for match in matches)
    numbers = [number for number, _ in shards]
    if not shards or numbers != list(range(len(shards))):
        raise UserError(
            f"{reader.path} has the embedding shards {numbers}, expected "
            "transformer/symbol_modality_<vocab>_<width>/shared/weights_0, 1, ...: give a "
            "complete checkpoint of a model whose source, target and softmax share one embedding."
        )
    return np.concatenate([reader.read(name) for _, name in shards])


def _target_space_vector(
    reader: _Checkpoint, target_space: int | None
) -> NDArray[np.float32] | None:
    """Returns what T2T adds to the encoder's input at every position, [d_model], if anything."""
    rows = reader.shapes.get(TARGET_SPACE, [0])[0]
    if not rows and target_space is None:
        return None
    if target_space is None or not 0 <= target_space < rows:
        raise UserError(
            f"target_space is {target_space}, but {reader.path} has a target_space_embedding of "
            f"{rows} rows: leave it out where there are none, else give the row that was "
            "trained, such as target_space=0 for translation by T2T 1.5.2 and later (before: "
            "SpaceID in T2T's data_generators/problem.py)."
        )
    table: NDArray[np.float32] = reader.read(TARGET_SPACE)
    return table[target_space]
