"""A small model as Marian writes it, and what such a model computes, in NumPy: slow and obvious.

The formulas are those of marian-dev, src/models/transformer.h; nothing of the package is in them.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.marian_formulas import ACTIVATIONS, attend
from tests.text.marian_directory import SOURCE_TEXT, TARGET_TEXT, train

D_MODEL, HEADS, D_FF = 8, 2, 12
DEPTHS = {"encoder": 2, "decoder": 1}
OPTIONS: dict[str, Any] = {
    "type": "transformer",
    "dim-emb": D_MODEL,
    "enc-depth": DEPTHS["encoder"],
    "dec-depth": DEPTHS["decoder"],
    "transformer-heads": HEADS,
    "transformer-dim-ffn": D_FF,
    "transformer-postprocess": "dan",
    "version": "v1.12.42 b7be0e964",
}
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
    folder: Path, rows: tuple[int, int], vocabularies: list[str], **options: Any
) -> dict[str, np.ndarray]:
    """Writes model.npz with random weights and decoder.yml; returns the weights by name.

    Args:
        folder: has the vocabularies.
        rows: their sizes.
        vocabularies: their names.
        options: of the model, with _ for -, besides `OPTIONS`.
    """
    values = OPTIONS | {"dim-vocabs": [*rows]}
    values |= {name.replace("_", "-"): value for name, value in options.items()}
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


def tables_of(rows: tuple[int, int], options: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """The shapes of all tables; which are tied, the options say."""
    source, target = ((count, D_MODEL) for count in rows)
    joint = options.get("tied-embeddings-all") or options.get("tied-embeddings-src")
    shapes = {"Wemb": target} if joint else {"encoder_Wemb": source, "decoder_Wemb": target}
    if not (options.get("tied-embeddings-all") or options.get("tied-embeddings")):
        shapes["decoder_ff_logit_out_Wt"] = target
    return shapes


def random_weights(rows: tuple[int, int], options: dict[str, Any]) -> dict[str, np.ndarray]:
    shapes: dict[str, tuple[int, ...]] = {**tables_of(rows, options)}
    shapes["decoder_ff_logit_out_b"] = (1, rows[1])
    norm = "_pre" if options.get("transformer-preprocess") else ""
    for stack, depth in DEPTHS.items():
        for layer in (f"{stack}_l{number}" for number in range(1, depth + 1)):
            for part in ("self", "context")[: 1 + (stack == "decoder")]:
                for letter in "qkvo":
                    shapes[f"{layer}_{part}_W{letter}"] = (D_MODEL, D_MODEL)
                    shapes[f"{layer}_{part}_b{letter}"] = (1, D_MODEL)
                for kind in ("scale", "bias"):
                    shapes[f"{layer}_{part}_Wo_ln_{kind}{norm}"] = (1, D_MODEL)
            for kind in ("scale", "bias"):
                shapes[f"{layer}_ffn_ffn_ln_{kind}{norm}"] = (1, D_MODEL)
            shapes[f"{layer}_ffn_W1"], shapes[f"{layer}_ffn_b1"] = (D_MODEL, D_FF), (1, D_FF)
            shapes[f"{layer}_ffn_W2"], shapes[f"{layer}_ffn_b2"] = (D_FF, D_MODEL), (1, D_MODEL)
        if options.get("transformer-postprocess-top"):
            shapes |= {f"{stack}_top_ln_{kind}": (1, D_MODEL) for kind in ("scale", "bias")}
    rng = np.random.default_rng(0)
    return {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


class NativeMarian:
    """A model, of its weights and options."""

    def __init__(self, weights: dict[str, np.ndarray], options: dict[str, Any]) -> None:
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}
        self.pre = bool(options.get("transformer-preprocess"))
        self.act = ACTIVATIONS[options.get("transformer-ffn-activation", "swish")]

    def table(self, stack):
        return self.weights.get(f"{stack}_Wemb", self.weights.get("Wemb"))

    def positions(self, length):
        half = D_MODEL // 2
        angles = np.arange(length)[:, None] * np.exp(
            -np.arange(half) * math.log(10000) / (half - 1)
        )
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def linear(self, name, letter, x):
        return x @ self.weights[f"{name}_W{letter}"] + self.weights[f"{name}_b{letter}"]

    def norm(self, name, x):
        end = "_pre" if self.pre and "_top" not in name else ""
        scale, bias = (self.weights[f"{name}_ln_{kind}{end}"] for kind in ("scale", "bias"))
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + bias

    def residual(self, norm, x, sublayer):
        if self.pre:
            return x + sublayer(self.norm(norm, x))
        return self.norm(norm, x + sublayer(x))

    def attention(self, name, x, memory, causal=False):
        q, k, v = (
            np.split(self.linear(name, letter, of), HEADS, axis=1)
            for letter, of in (("q", x), ("k", memory), ("v", memory))
        )
        return self.linear(name, "o", attend(q, k, v, causal))

    def stack(self, stack, x, memory=None):
        for number in range(1, DEPTHS[stack] + 1):
            name = f"{stack}_l{number}"

            def itself(x, name=f"{name}_self"):
                return self.attention(name, x, x, causal=memory is not None)

            def others(x, name=f"{name}_context"):
                return self.attention(name, x, memory)

            def network(x, name=f"{name}_ffn"):
                return self.linear(name, "2", self.act(self.linear(name, "1", x)))

            x = self.residual(f"{name}_self_Wo", x, itself)
            if memory is not None:
                x = self.residual(f"{name}_context_Wo", x, others)
            x = self.residual(f"{name}_ffn_ffn", x, network)
        return self.norm(f"{stack}_top", x) if self.pre else x

    def log_probabilities(self, source, target):
        """[target_length, rows]: of each target id, given those before it."""
        embedded = math.sqrt(D_MODEL) * self.table("encoder")[source]
        memory = self.stack("encoder", embedded + self.positions(len(source)))
        begun = np.zeros((1, D_MODEL))
        shifted = np.concatenate([begun, math.sqrt(D_MODEL) * self.table("decoder")[target[:-1]]])
        x = self.stack("decoder", shifted + self.positions(len(target)), memory)
        softmax = self.weights.get("decoder_ff_logit_out_Wt", self.table("decoder"))
        logits = x @ softmax.T + self.weights["decoder_ff_logit_out_b"]
        largest = logits.max(-1, keepdims=True)
        return logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True))


def write_map(path: Path, ids: dict[str, int]) -> None:
    """Writes a vocabulary; in YAML as Marian's emitter does."""
    if path.suffix == ".json":
        path.write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
        return
    lines = (f"{_quoted(piece)}: {number}\n" for piece, number in ids.items())
    path.write_text("".join(lines), encoding="utf-8")


def _quoted(piece: str) -> str:
    return piece if piece.isalnum() else json.dumps(piece, ensure_ascii=False)
