"""Loads checkpoints of the original Tensor2Tensor (T2T) into our `Transformer`.

T2T names its variables `transformer/body/<stack>/layer_<i>/<sublayer>/...`. Its kernels have the
layout of ours, so loading is a matter of names. Only the embedding may be stored in shards.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import keras
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
from t2t_repro.model.decoder import Decoder, DecoderLayer
from t2t_repro.model.encoder import Encoder, EncoderLayer
from t2t_repro.model.transformer import Transformer

NamedVariables = Iterator[tuple[str, keras.Variable]]

EMBEDDING_SHARD = re.compile(r"(transformer/symbol_modality_\d+_\d+/shared)/weights_(\d+)")
TARGET_SPACE = f"{BODY}/target_space_embedding/kernel"

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
    for name, variable in _body_variables(model):
        variable.assign(reader.read(name))
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
    if "global_step" not in reader.shapes:
        return 0
    return int(reader.read("global_step"))


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
        try:
            self._reader = tf.train.load_checkpoint(str(_latest(path) if path.is_dir() else path))
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


def _latest(folder: Path) -> Path:
    """Returns the prefix of the latest checkpoint, also of a folder that was moved."""
    state = tf.train.get_checkpoint_state(str(folder))
    return folder / Path(state.model_checkpoint_path).name if state else folder


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
        heads = f"{name}/{kind}/multihead_attention"
        yield f"{heads}/q/kernel", attention.query_projection.kernel
        yield f"{heads}/k/kernel", attention.key_projection.kernel
        yield f"{heads}/v/kernel", attention.value_projection.kernel
        yield f"{heads}/output_transform/kernel", attention.output_projection.kernel
        yield from _norm_variables(f"{name}/{kind}/{norm}", around.norm)
    network = layer.feed_forward
    for conv, dense in (("conv1", network.inner), ("conv2", network.outer)):
        yield f"{name}/ffn/{conv}/kernel", dense.kernel
        yield f"{name}/ffn/{conv}/bias", dense.bias
    yield from _norm_variables(f"{name}/ffn/{norm}", layer.around_feed_forward.norm)


def _norm_variables(name: str, norm: keras.layers.LayerNormalization) -> NamedVariables:
    yield f"{name}/layer_norm_scale", norm.gamma
    yield f"{name}/layer_norm_bias", norm.beta


def _embedding_table(reader: _Checkpoint) -> NDArray[np.float32]:
    """Joins the shards of the shared embedding: [vocab, d_model]."""
    matches = filter(None, map(EMBEDDING_SHARD.fullmatch, reader.shapes))
    shards = sorted((int(match[2]), match[1], match[0]) for match in matches)
    numbers = [number for number, *_ in shards]
    scopes = {scope for _, scope, _ in shards}
    if len(scopes) != 1 or numbers != list(range(len(shards))):
        raise UserError(
            f"{reader.path} has the embedding shards {numbers} in {len(scopes)} scopes, expected "
            "transformer/symbol_modality_<vocab>_<width>/shared/weights_0, 1, ... in one: give a "
            "complete checkpoint of a model whose source, target and softmax share one embedding."
        )
    return np.concatenate([reader.read(name) for *_, name in shards])


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
