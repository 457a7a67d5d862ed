"""Reads the settings of a Tensor2Tensor run: its hparams.json, checked against its weights.

The shapes of the weights give all sizes but the number of heads. hparams.json gives that number,
and the settings that change what is computed. Where both say something, they must agree.
"""

import re
from pathlib import Path
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import read_json
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.layer_norm import LAYER_NORM_EPSILON

Shapes = dict[str, list[int]]
"""Shapes of a checkpoint's variables, by T2T's names."""

BODY = "transformer/body"

_FINAL_NORM = f"{BODY}/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"

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
"""The values with which T2T's Transformer computes what ours does.

Older versions of T2T lack some of these settings: the first value was then the only behaviour.
"""


def read_hparams(path: Path) -> dict[str, Any]:
    """Reads an hparams.json.

    Raises:
        UserError: the file cannot be read, or describes a model that `Transformer` cannot be.
    """
    try:
        hparams = read_json(path)
        if "num_heads" not in hparams:
            raise ValueError("it has no num_heads")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}), expected the hparams.json that t2t-trainer writes "
            'beside its checkpoints: copy it there, or write one such as {"num_heads": 8}; all '
            "other sizes are known from the weights."
        ) from error
    for name, allowed in REQUIRED_HPARAMS.items():
        if (value := hparams.get(name, allowed[0])) not in allowed:
            raise UserError(
                f"hparams.json has {name}={value!r}, expected {allowed[0]!r}: a T2T model of "
                "another kind cannot be imported."
            )
    return hparams


def numbers_of_layers(shapes: Shapes) -> tuple[int, int]:
    """Counts the layers of encoder and decoder."""
    names = [re.match(rf"{BODY}/(encoder|decoder)/layer_\d+/", name) for name in shapes]
    stacks = [found[1] for found in {name[0]: name for name in names if name}.values()]
    return stacks.count("encoder"), stacks.count("decoder")


def layer_config(hparams: dict[str, Any], shapes: Shapes) -> LayerConfig:
    """Translates T2T's names of sizes and rates into the paper's.

    Sizes are those of the weights, whatever hparams.json says of them.

    Raises:
        UserError: a weight is missing, or the number of heads does not fit.
    """
    layer = f"{BODY}/encoder/layer_0"
    attention = f"{layer}/self_attention/multihead_attention"
    names = f"{layer}/ffn/conv1/kernel", f"{attention}/k/kernel", f"{attention}/v/kernel"
    try:
        (d_model, d_ff), (_, keys), (_, values) = (shapes[name] for name in names)
    except (KeyError, ValueError) as error:
        raise UserError(
            f"the checkpoint lacks one of the matrices {', '.join(names)}, expected the variables "
            "of a T2T Transformer (version 1.3 or later): give such a checkpoint."
        ) from error
    heads = hparams["num_heads"]
    if not isinstance(heads, int) or heads < 1 or keys % heads or values % heads:
        raise UserError(
            f"hparams.json has num_heads={heads!r}, expected a divisor of the {keys} channels of "
            f"the checkpoint's keys and the {values} of its values: give the hparams.json that "
            "t2t-trainer wrote for this checkpoint."
        )
    return LayerConfig(
        d_model=d_model,
        d_ff=d_ff,
        num_heads=heads,
        d_k=keys // heads,
        d_v=values // heads,
        dropout=hparams.get("layer_prepostprocess_dropout", 0.0),
        attention_dropout=hparams.get("attention_dropout", 0.0),
        relu_dropout=hparams.get("relu_dropout", 0.0),
        # Only a pre-norm model has a norm after its last layer.
        normalization="pre" if _FINAL_NORM in shapes else "post",
    )
