"""A small Marian model as Hugging Face saves it, and what such a model computes, in NumPy."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.text.marian_directory import write_marian_text

D_MODEL, HEADS, D_FF = 8, 2, 12
LAYERS = {"encoder": 3, "decoder": 2}
Weights = dict[str, NDArray[np.float32]]


def write_marian_model(
    folder: Path, shares: bool = True, ties: bool = True, **more: Any
) -> Weights:
    """Writes the files of a model with random weights; returns these.

    Args:
        folder: is made.
        shares: whether source and target share a vocabulary and an embedding.
        ties: whether the target's embedding is the softmax's matrix.
        more: fields of config.json; None leaves one out.
    """
    write_marian_text(folder, separate=not shares)
    rows = [len(read(folder / "vocab.json"))] * 2
    pad = rows[0] - 1
    if not shares:
        rows[1] = len(read(folder / "target_vocab.json"))
        _put_pad_at(folder / "target_vocab.json", pad := min(rows) - 1)
        _put_pad_at(folder / "vocab.json", pad)
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "activation_function": "swish",
        "d_model": D_MODEL,
        **{f"{stack}_attention_heads": HEADS for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": D_FF for stack in ("encoder", "decoder")},
        **{f"{stack}_layers": count for stack, count in LAYERS.items()},
        "dropout": 0.1,
        "max_position_embeddings": 64,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "vocab_size": rows[0],
        "decoder_vocab_size": rows[1],
        "share_encoder_decoder_embeddings": shares,
        "tie_word_embeddings": ties,
        **dict.fromkeys(("pad_token_id", "decoder_start_token_id"), pad),
        **dict.fromkeys(("eos_token_id", "forced_eos_token_id"), 0),
        "num_beams": 3,
        "length_penalty": 0.5,
        "bad_words_ids": [[pad]],
    }
    config = {name: value for name, value in (config | more).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = random_weights(rows, pad, shares, ties)
    save_file(tensors, folder / "model.safetensors")
    return tensors


def read(path: Path) -> Any:
    """What is in a JSON file."""
    return json.loads(path.read_text())


def _put_pad_at(path: Path, number: int) -> None:
    pieces = [piece for piece in read(path) if piece != "<pad>"]
    pieces.insert(number, "<pad>")
    path.write_text(json.dumps({piece: place for place, piece in enumerate(pieces)}))


def random_weights(rows: Sequence[int], pad: int, shares: bool, ties: bool) -> Weights:
    """Returns the weights by their names; the row of PAD is zero."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"final_logits_bias": (1, rows[1])}
    if shares:
        shapes["model.shared.weight"] = (rows[0], D_MODEL)
    else:
        shapes["model.encoder.embed_tokens.weight"] = (rows[0], D_MODEL)
        shapes["model.decoder.embed_tokens.weight"] = (rows[1], D_MODEL)
    if not ties:
        shapes["lm_head.weight"] = (rows[1], D_MODEL)
    for stack in ("encoder", "decoder"):
        attentions = ["self_attn"] if stack == "encoder" else ["self_attn", "encoder_attn"]
        for number in range(LAYERS[stack]):
            layer = f"model.{stack}.layers.{number}"
            for attention in attentions:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes[f"{layer}.{attention}.{part}.weight"] = (D_MODEL, D_MODEL)
                    shapes[f"{layer}.{attention}.{part}.bias"] = (D_MODEL,)
            for norm in (*(f"{one}_layer_norm" for one in attentions), "final_layer_norm"):
                shapes[f"{layer}.{norm}.weight"] = shapes[f"{layer}.{norm}.bias"] = (D_MODEL,)
            shapes[f"{layer}.fc1.weight"], shapes[f"{layer}.fc1.bias"] = (D_FF, D_MODEL), (D_FF,)
            shapes[f"{layer}.fc2.weight"], shapes[f"{layer}.fc2.bias"] = (D_MODEL, D_FF), (D_MODEL,)
    found = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    for name in found:
        if "embed_tokens" in name or "shared" in name:
            found[name][pad] = 0
    return found


def write_h5(path: Path, tensors: Weights) -> None:
    """As TFMarianMTModel.save_pretrained names, groups and turns them."""
    with h5py.File(path, "w") as file:
        for name, value in tensors.items():
            *parts, last = name.split(".")
            if name == "final_logits_bias":
                place = "final_logits_bias/final_logits_bias"
            elif name == "model.shared.weight":
                place = "model/model.shared/model.shared/embeddings"
            else:
                is_norm = "norm" in parts[-1]
                last = {"weight": "gamma" if is_norm else "kernel", "bias": "beta"}[last]
                last = "bias" if last == "beta" and not is_norm else last
                layers = f"{parts[2]}.{parts[3]}"
                below = "/".join([parts[1], layers, *parts[4:], last])
                place = f"model/tf_marian_mt_model/model/{below}"
            file[f"{place}:0"] = value.T if place.endswith("kernel") else value
