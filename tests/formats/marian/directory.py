"""A small model as Marian writes it, and what such a model computes, by the formulas of the tests.

The formulas are those of marian-dev, src/models/transformer.h; nothing of the package is in them.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.formats.hugging_face import directory as hugging_face
from tests.formats.hugging_face.directory import D_FF, D_MODEL, HEADS, LAYERS
from tests.marian_formulas import Marian
from tests.text.marian_directory import SOURCE_TEXT, TARGET_TEXT, train

OPTIONS: dict[str, Any] = {
    "type": "transformer",
    "dim-emb": D_MODEL,
    "enc-depth": LAYERS["encoder"],
    "dec-depth": LAYERS["decoder"],
    "transformer-heads": HEADS,
    "transformer-dim-ffn": D_FF,
    "transformer-postprocess": "dan",
    "version": "v1.12.42 b7be0e964",
}
TIED = {"tied-embeddings-all": True}
STUDENT = TIED | {"transformer-decoder-autoreg": "rnn", "transformer-ffn-activation": "relu"}
PRE_NORM = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}


def write_spm(folder: Path, joint: bool = True) -> list[str]:
    """Writes vocab.spm, or one for each side; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    if joint:
        (folder / "vocab.spm").write_bytes(train(SOURCE_TEXT + TARGET_TEXT))
        return ["vocab.spm"] * 2
    for side, text in (("en", SOURCE_TEXT), ("de", TARGET_TEXT)):
        (folder / f"vocab.{side}.spm").write_bytes(train(text, 60 if side == "en" else 80))
    return ["vocab.en.spm", "vocab.de.spm"]


def write_model(
    folder: Path, rows: tuple[int, int], vocabularies: list[str], options: dict[str, Any] = TIED
) -> dict[str, np.ndarray]:
    """Writes model.npz with random weights and decoder.yml; returns the weights by name.

    Args:
        folder: has the vocabularies.
        rows: their sizes.
        vocabularies: their names.
        options: of the model, besides `OPTIONS`.
    """
    values = OPTIONS | {"dim-vocabs": [*rows]} | options
    weights = random_weights(rows, values)
    save(folder / "model.npz", weights, values)
    decoder = {"relative-paths": True, "models": ["model.npz"], "vocabs": vocabularies}
    search = {"beam-size": 3, "normalize": 0.5, "word-penalty": 0}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder | search))
    return weights


def save(path: Path, weights: dict[str, np.ndarray], options: dict[str, Any]) -> None:
    text = yaml.safe_dump(options).encode()
    padded = text + b"\0" * (256 - len(text) % 256)
    members: dict[str, Any] = weights | {"special:model.yml": np.frombuffer(padded, np.int8)}
    np.savez(path, **members)


def random_tensors(rows: tuple[int, int], options: dict[str, Any]) -> hugging_face.Weights:
    """Returns weights by Hugging Face's names, with its layout."""
    softmax, source = (bool(options.get(f"tied-embeddings{end}")) for end in ("", "-src"))
    is_tied = bool(options.get("tied-embeddings-all"))
    tensors = hugging_face.random_weights(rows, 2, source or is_tied, softmax or is_tied)
    rng = np.random.default_rng(1)
    for stack in LAYERS if options.get("transformer-preprocess") else ():
        for kind in ("weight", "bias"):
            norm = rng.normal(0, 0.5, D_MODEL).astype(np.float32)
            tensors[f"model.{stack}.layer_norm.{kind}"] = norm
    return tensors


def random_weights(rows: tuple[int, int], options: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns the same weights by Marian's names, with its layout."""
    is_pre = bool(options.get("transformer-preprocess"))
    weights = {}
    for name, value in random_tensors(rows, options).items():
        end = "_pre" if is_pre and ".layers." in name and "norm" in name else ""
        is_kernel = "_proj" in name or ".fc" in name
        weights[_marians(name) + end] = np.atleast_2d(value.T if is_kernel else value)
    return _with_units(weights) if "transformer-decoder-autoreg" in options else weights


def _with_units(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Makes queries and values of the decoder's self-attention the gate and values of the SSRU."""
    parts = {"Wq": "Wf", "bq": "bf", "Wv": "W", "Wo_ln_scale": "ffn_ln_scale"}
    parts["Wo_ln_bias"] = "ffn_ln_bias"
    found = {}
    for name, value in weights.items():
        layer, _, part = name.partition("_self_")
        if not name.startswith("decoder") or not part:
            found[name] = value
        elif part in parts:
            found[f"{layer}_rnn_{parts[part]}"] = value
    return found


def formulas_of(tensors: hugging_face.Weights, options: dict[str, Any]) -> Marian:
    """Returns the formulas of a model, in which the last id is one more, that begins: zeros."""
    tables = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
    shared = tensors.get("model.shared.weight")
    weights: dict[str, Any] = {**dict.fromkeys(tables, shared), **tensors}
    weights = {"lm_head.weight": weights[tables[1]]} | weights
    for name in (tables[1], "lm_head.weight"):
        weights[name] = np.pad(weights[name], [(0, 1), (0, 0)])
    bias = "final_logits_bias"
    weights[bias] = np.pad(weights[bias], [(0, 0), (0, 1)], constant_values=-1000.0)
    config = {
        "scale_embedding": True,
        "tie_word_embeddings": False,
        "activation_function": options.get("transformer-ffn-activation", "swish"),
        "d_model": D_MODEL,
        "encoder_attention_heads": HEADS,
        **{f"{stack}_layers": depth for stack, depth in LAYERS.items()},
        "norm_epsilon": 1e-6,
        "apart": 2,
        "pre_norm": "transformer-preprocess" in options,
        "ssru": "transformer-decoder-autoreg" in options,
        "decoder_start_token_id": len(weights[tables[1]]) - 1,
    }
    return Marian(config, weights)


_RENAMED: list[tuple[str, Any]] = [  # In this order.
    ("model.shared.weight", "Wemb"),
    (r"model.(\w+).embed_tokens.weight", r"\1_Wemb"),
    ("lm_head.weight", "decoder_ff_logit_out_Wt"),
    ("final_logits_bias", "decoder_ff_logit_out_b"),
    (r"model.(\w+).layer_norm.", r"\1_top_ln_"),
    (r"model.(\w+).layers.(\d).", lambda match: f"{match[1]}_l{int(match[2]) + 1}_"),
    ("self_attn", "self"),
    ("encoder_attn", "context"),
    (r"(self|context)_layer_norm.", r"\1_Wo_ln_"),
    (r"final_layer_norm.", "ffn_ffn_ln_"),
    (r"_ln_weight", "_ln_scale"),
    (r"\.([qkvo])\w*_proj.weight", r"_W\1"),
    (r"\.([qkvo])\w*_proj.bias", r"_b\1"),
    (r"fc(\d).weight", r"ffn_W\1"),
    (r"fc(\d).bias", r"ffn_b\1"),
]


def _marians(name: str) -> str:
    """Returns Marian's name of a weight of Hugging Face's."""
    for theirs, marians in _RENAMED:
        name = re.sub(theirs, marians, name)
    return name


def write_map(path: Path, ids: dict[str, int]) -> None:
    """Writes a vocabulary; in YAML as Marian's emitter does."""
    whole = json.dumps(ids, ensure_ascii=False)
    lines = (
        f"{piece if piece.isalnum() else json.dumps(piece, ensure_ascii=False)}: {number}\n"
        for piece, number in ids.items()
    )
    path.write_text(whole if path.suffix == ".json" else "".join(lines), encoding="utf-8")
