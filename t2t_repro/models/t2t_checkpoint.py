"""Loads checkpoints of the original Tensor2Tensor (T2T) into our `Transformer`.

T2T writes its variables as `transformer/body/<stack>/layer_<i>/<sublayer>/...`. The kernels have
the layout of ours, so that loading is a matter of names; the embedding alone may be in shards.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.layers.attention import MultiHeadAttention
from t2t_repro.layers.decoder import Decoder, DecoderLayer
from t2t_repro.layers.encoder import Encoder, EncoderLayer
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer_config import LayerConfig
from t2t_repro.layers.sublayer import LAYER_NORM_EPSILON
from t2t_repro.models.transformer import Transformer

NamedVariables = Iterator[tuple[str, keras.Variable]]

CheckpointReader = Any
"""What tf.train.load_checkpoint returns; TensorFlow has no public name for it."""

BODY = "transformer/body"
EMBEDDING_SHARD = re.compile(r"transformer/symbol_modality_\d+_\d+/shared/weights_(\d+)")
TARGET_SPACE = f"{BODY}/target_space_embedding/kernel"

NORMALIZATIONS = {("none", "dan"): "post", ("n", "da"): "pre"}
"""(layer_preprocess_sequence, layer_postprocess_sequence): d = dropout, a = add, n = norm."""

REQUIRED_HPARAMS: dict[str, tuple] = {
    "attention_variables_3d": (False,),
    "causal_decoder_self_attention": (True,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "multiply_embedding_mode": ("sqrt_depth",),
    "norm_epsilon": (LAYER_NORM_EPSILON,),
    "norm_type": ("layer",),
    "pos": ("timing",),
    "position_features": ("", None),
    "proximity_bias": (False,),
    "self_attention_type": ("dot_product",),
    "shared_embedding_and_softmax_weights": (True,),
    "unidirectional_encoder": (False,),
}
"""What T2T's Transformer must have been set to for ours to compute the same."""


def transformer_from_t2t(checkpoint_dir: str | Path) -> Transformer:
    """Builds the Transformer that a T2T model directory holds, with its weights.

    Args:
        checkpoint_dir: the directory that t2t-trainer wrote: `hparams.json`, the state file
            `checkpoint`, and the checkpoints themselves, of which the latest is taken.

    Returns:
        The model, built and loaded.

    Raises:
        UserError: if a file is missing, or the model is one that `Transformer` is not.
    """
    hparams = _read_hparams(Path(checkpoint_dir) / "hparams.json")
    _refuse_unlike_hparams(hparams)
    num_layers = _number_of_layers(hparams)
    vocab_size = len(_embedding_table(_open_checkpoint(checkpoint_dir), checkpoint_dir))
    model = Transformer(
        vocab_size, num_layers, _layer_config(hparams), positional_encoding="concatenated"
    )
    load_t2t_checkpoint(model, checkpoint_dir)
    return model


def load_t2t_checkpoint(model: Transformer, path: str | Path) -> None:
    """Sets all weights of a model from a T2T checkpoint.

    Variables that the model has no place for, such as an optimizer's, are ignored. If anything
    does not fit, the model keeps the weights that it had.

    Args:
        model: built or not; with positional_encoding="concatenated", which is T2T's.
        path: of a checkpoint (`.../model.ckpt-1200`), or of a directory, for its latest one.

    Raises:
        UserError: if there is no checkpoint, or it does not fit the model.
    """
    if model.positional_encoding.kind != "concatenated":
        raise UserError(
            f"The model has positional_encoding={model.positional_encoding.kind!r}, expected "
            "'concatenated', which T2T's weights were trained with: build it so, or with "
            "transformer_from_t2t."
        )
    reader = _open_checkpoint(path)
    _refuse_unlike_variables(reader, model, path)
    if not model.built:
        model.build()
    values = [(model.embedding.table, _embedding_table(reader, path))]
    for name, variable in _body_variables(model):
        values.append((variable, _read(reader, name, path)))
        _check_shape(name, *values[-1], path)
    _check_shape("the embedding", *values[0], path)
    for variable, value in values:
        variable.assign(value)


def _body_variables(model: Transformer) -> NamedVariables:
    """Pairs T2T's names with the variables of the encoder and the decoder."""
    yield from _stack_variables(f"{BODY}/encoder", model.encoder)
    yield from _stack_variables(f"{BODY}/decoder", model.decoder)


def _stack_variables(name: str, stack: Encoder | Decoder) -> NamedVariables:
    # T2T names a norm after the hook it runs in, and its pre-norm hook "prepostprocess".
    is_pre = stack.layer.normalization == "pre"
    norm = f"{'layer_prepostprocess' if is_pre else 'layer_postprocess'}/layer_norm"
    for i in range(stack.num_layers):
        yield from _layer_variables(f"{name}/layer_{i}", norm, stack.layers[i])
    if stack.final_norm:
        yield from _norm_variables(f"{name}/{norm}", stack.final_norm)


def _layer_variables(name: str, norm: str, layer: EncoderLayer | DecoderLayer) -> NamedVariables:
    yield from _attention_variables(f"{name}/self_attention", layer.self_attention)
    yield from _norm_variables(f"{name}/self_attention/{norm}", layer.around_self_attention.norm)
    if isinstance(layer, DecoderLayer):
        yield from _attention_variables(f"{name}/encdec_attention", layer.memory_attention)
        yield from _norm_variables(
            f"{name}/encdec_attention/{norm}", layer.around_memory_attention.norm
        )
    yield from _feed_forward_variables(f"{name}/ffn", layer.feed_forward)
    yield from _norm_variables(f"{name}/ffn/{norm}", layer.around_feed_forward.norm)


def _attention_variables(name: str, attention: MultiHeadAttention) -> NamedVariables:
    name = f"{name}/multihead_attention"
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


def _open_checkpoint(path: str | Path) -> CheckpointReader:
    try:
        return tf.train.load_checkpoint(str(path))
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(
            f"{path} holds no checkpoint that TensorFlow can read, expected a directory with the "
            "file 'checkpoint', or a prefix such as .../model.ckpt-1200 of an .index and a .data "
            "file: check the path."
        ) from error


def _read(reader: CheckpointReader, name: str, path: str | Path) -> np.ndarray:
    if not reader.has_tensor(name):
        raise UserError(
            f"{path} has no variable {name}, expected one for every weight of the model: give the "
            "checkpoint of a Transformer with the model's num_layers and normalization."
        )
    return reader.get_tensor(name)


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
    return np.concatenate([reader.get_tensor(name) for _, name in shards])


def _check_shape(name: str, variable: keras.Variable, value: np.ndarray, path: str | Path) -> None:
    if value.shape != tuple(variable.shape):
        raise UserError(
            f"{path} has {name} with the shape {value.shape}, expected {tuple(variable.shape)}: "
            "build the model with the checkpoint's sizes, as transformer_from_t2t does."
        )


def _refuse_unlike_variables(
    reader: CheckpointReader, model: Transformer, path: str | Path
) -> None:
    """Refuses checkpoints of larger models: ignoring what they have more would change results."""
    if reader.has_tensor(TARGET_SPACE):
        raise UserError(
            f"{path} has {TARGET_SPACE}, a vector that T2T adds to the encoder's input, expected "
            "a model without it, as in the paper: train with use_target_space_embedding=False."
        )
    for stack in ("encoder", "decoder"):
        extra = f"{BODY}/{stack}/layer_{model.num_layers}/"
        if any(name.startswith(extra) for name in reader.get_variable_to_shape_map()):
            raise UserError(
                f"{path} has variables {extra}..., expected num_layers={model.num_layers} layers "
                f"as in the model: build it with the checkpoint's number."
            )


def _read_hparams(path: Path) -> dict[str, Any]:
    try:
        hparams = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}), expected the hparams.json that t2t-trainer writes "
            "beside its checkpoints: copy it there, or build the model yourself and use "
            "load_t2t_checkpoint."
        ) from error
    needed = {
        "hidden_size",
        "filter_size",
        "num_heads",
        "num_hidden_layers",
        "layer_preprocess_sequence",
        "layer_postprocess_sequence",
    }
    if missing := sorted(needed - set(hparams)):
        raise UserError(
            f"{path} has no {', '.join(missing)}, expected the hparams of a T2T Transformer: "
            "give the model directory that t2t-trainer wrote."
        )
    return hparams


def _refuse_unlike_hparams(hparams: dict[str, Any]) -> None:
    """Refuses models that our Transformer would load and then compute differently."""
    for name, allowed in REQUIRED_HPARAMS.items():
        # Older versions of T2T lack some: what these came to set was the only behaviour before.
        if (value := hparams.get(name, allowed[0])) not in allowed:
            raise UserError(
                f"hparams.json has {name}={value!r}, expected {allowed[0]!r}: "
                "the paper's Transformer has no such variant, train the checkpoint without it."
            )


def _number_of_layers(hparams: dict[str, Any]) -> int:
    """N of both stacks; T2T's num_encoder_layers and num_decoder_layers override it if not 0."""
    encoder, decoder = (
        hparams.get(f"num_{stack}_layers") or hparams["num_hidden_layers"]
        for stack in ("encoder", "decoder")
    )
    if encoder != decoder:
        raise UserError(
            f"hparams.json has {encoder} encoder and {decoder} decoder layers, expected one number "
            "for both as in the paper: give a checkpoint of such a model."
        )
    return encoder


def _layer_config(hparams: dict[str, Any]) -> LayerConfig:
    """Translates T2T's names of sizes and rates into the paper's."""
    sequences = (hparams["layer_preprocess_sequence"], hparams["layer_postprocess_sequence"])
    if sequences not in NORMALIZATIONS:
        raise UserError(
            f"hparams.json has layer_preprocess_sequence={sequences[0]!r} and "
            f"layer_postprocess_sequence={sequences[1]!r}, expected 'none' and 'dan' (post-norm) "
            "or 'n' and 'da' (pre-norm): give a checkpoint trained with one of these."
        )
    d_model, num_heads = hparams["hidden_size"], hparams["num_heads"]
    # Channels of all heads together; 0 stands for hidden_size.
    key_channels = hparams.get("attention_key_channels") or d_model
    value_channels = hparams.get("attention_value_channels") or d_model
    return LayerConfig(
        d_model=d_model,
        d_ff=hparams["filter_size"],
        num_heads=num_heads,
        d_k=key_channels // num_heads,
        d_v=value_channels // num_heads,
        dropout=hparams.get("layer_prepostprocess_dropout", 0.0),
        attention_dropout=hparams.get("attention_dropout", 0.0),
        relu_dropout=hparams.get("relu_dropout", 0.0),
        normalization=NORMALIZATIONS[sequences],
    )
