"""What a T2T run was set to: its hparams.json, held against the shapes of its weights.

The checkpoint's shapes tell all sizes but the number of heads. hparams.json tells that, and the
settings that change what is computed; where both tell something, they must agree.
"""

import re
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.model.layer_config import LayerConfig, Normalization
from t2t_repro.model.layer_norm import LAYER_NORM_EPSILON

Shapes = dict[str, list[int]]
"""Shapes of a checkpoint's variables, by T2T's names."""

BODY = "transformer/body"

SEQUENCES = {"post": ("none", "dan"), "pre": ("n", "da")}
"""(layer_preprocess_sequence, layer_postprocess_sequence): d = dropout, a = add, n = norm."""

REQUIRED_HPARAMS: dict[str, tuple] = {
    "attention_variables_3d": (False,),
    "causal_decoder_self_attention": (True,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "hard_attention_k": (0,),
    "multiply_embedding_mode": ("sqrt_depth",),
    "norm_epsilon": (LAYER_NORM_EPSILON,),
    "norm_type": ("layer",),
    "num_area_layers": (0,),
    "pos": ("timing",),
    "position_features": ("", None),
    "proximity_bias": (False,),
    "self_attention_type": ("dot_product",),
    "shared_embedding_and_softmax_weights": (True,),
    "unidirectional_encoder": (False,),
}
"""What T2T's Transformer must have been set to for ours to compute the same."""


def read_hparams(path: Path) -> dict[str, Any]:
    """Reads the settings of a T2T run.

    Raises:
        UserError: it is no hparams.json, or of a model that our Transformer is not.
    """
    try:
        hparams = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}), expected the hparams.json that t2t-trainer writes "
            'beside its checkpoints: copy it there, or write one, such as {"num_heads": 8}, which '
            "is the one size that weights do not tell."
        ) from error
    if not isinstance(hparams, dict) or "num_heads" not in hparams:
        raise UserError(
            f"{path} has no num_heads, expected the hparams of a T2T Transformer: give the "
            "hparams.json that t2t-trainer wrote."
        )
    for name, allowed in REQUIRED_HPARAMS.items():
        # Older versions of T2T lack some: what these came to set was the only behaviour before.
        if (value := hparams.get(name, allowed[0])) not in allowed:
            raise UserError(
                f"hparams.json has {name}={value!r}, expected {allowed[0]!r}: "
                "the paper's Transformer has no such variant, train the checkpoint without it."
            )
    return hparams


def number_of_layers(hparams: dict[str, Any], shapes: Shapes) -> int:
    """N of both stacks; T2T's num_encoder_layers and num_decoder_layers override it if not 0.

    Raises:
        UserError: the stacks are unequal, or not what hparams.json says.
    """
    found = {}
    for stack in ("encoder", "decoder"):
        numbers = [
            int(match[1])
            for name in shapes
            if (match := re.match(rf"{BODY}/{stack}/layer_(\d+)/", name))
        ]
        found[stack] = max(numbers, default=-1) + 1
        said = hparams.get(f"num_{stack}_layers") or hparams.get("num_hidden_layers")
        _check_agreement(f"num_{stack}_layers", said, found[stack])
    if found["encoder"] != found["decoder"]:
        raise UserError(
            f"the checkpoint has {found['encoder']} encoder and {found['decoder']} decoder layers, "
            "expected one number for both as in the paper: give a checkpoint of such a model."
        )
    return found["encoder"]


def layer_config(hparams: dict[str, Any], shapes: Shapes) -> LayerConfig:
    """Translates T2T's names of sizes and rates into the paper's.

    Raises:
        UserError: something is missing, or the checkpoint is not what hparams.json says.
    """
    layer = f"{BODY}/encoder/layer_0"
    d_model, d_ff = _matrix(shapes, f"{layer}/ffn/conv1/kernel")
    attention = f"{layer}/self_attention/multihead_attention"
    _, keys = _matrix(shapes, f"{attention}/k/kernel")
    _, values = _matrix(shapes, f"{attention}/v/kernel")
    for name, size in (("hidden_size", d_model), ("filter_size", d_ff)):
        _check_agreement(name, hparams.get(name), size)
    # Channels of all heads together; 0 stands for hidden_size.
    for name, size in (("attention_key_channels", keys), ("attention_value_channels", values)):
        _check_agreement(name, hparams.get(name) or hparams.get("hidden_size"), size)
    num_heads = hparams["num_heads"]
    if not isinstance(num_heads, int) or num_heads < 1 or keys % num_heads or values % num_heads:
        raise UserError(
            f"hparams.json has num_heads={num_heads!r}, expected a divisor of the {keys} channels "
            f"of the checkpoint's keys and the {values} of its values: give the hparams.json that "
            "t2t-trainer wrote for this checkpoint."
        )
    return LayerConfig(
        d_model=d_model,
        d_ff=d_ff,
        num_heads=num_heads,
        d_k=keys // num_heads,
        d_v=values // num_heads,
        dropout=hparams.get("layer_prepostprocess_dropout", 0.0),
        attention_dropout=hparams.get("attention_dropout", 0.0),
        relu_dropout=hparams.get("relu_dropout", 0.0),
        normalization=_normalization(hparams, shapes),
    )


def _normalization(hparams: dict[str, Any], shapes: Shapes) -> Normalization:
    # Only a model that norms before its sub-layers needs a norm after the last.
    final = f"{BODY}/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"
    found: Normalization = "pre" if final in shapes else "post"
    said = (hparams.get("layer_preprocess_sequence"), hparams.get("layer_postprocess_sequence"))
    if said not in ((None, None), SEQUENCES[found]):
        raise UserError(
            f"hparams.json has layer_preprocess_sequence={said[0]!r} and "
            f"layer_postprocess_sequence={said[1]!r}, expected 'none' and 'dan' (post-norm) or 'n' "
            f"and 'da' (pre-norm), and for this checkpoint those of {found}-norm: give the "
            "hparams.json that t2t-trainer wrote for it."
        )
    return found


def _matrix(shapes: Shapes, name: str) -> tuple[int, int]:
    if len(shape := shapes.get(name, [])) != 2:
        raise UserError(
            f"the checkpoint has no matrix {name}, expected the variables of a T2T Transformer "
            "(version 1.3 or later): give such a checkpoint."
        )
    return shape[0], shape[1]


def _check_agreement(name: str, said: int | None, found: int) -> None:
    if said is not None and said != found:
        raise UserError(
            f"hparams.json has {name}={said}, but the checkpoint has {found}: give the "
            "hparams.json that t2t-trainer wrote for this checkpoint."
        )
