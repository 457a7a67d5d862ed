"""A directory of Hugging Face's MarianMTModel, read and computed in plain NumPy: slow and obvious.

Follows what transformers do with such files; nothing of the package, and none of theirs, is in it.
With Marian's positions, epsilon and norms it is Marian's own model too (`apart`, `pre_norm`).
"""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from safetensors.numpy import load_file

ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def logits_of(model, source, target):
    """The model's own: [target_length, rows]."""
    return model((np.array([source], np.int32), np.array([target], np.int32)))[0].numpy()


def assert_same_weights(model, other):
    np.testing.assert_equal(model.get_weights(), other.get_weights())


def sinusoids(d_model, length=64, apart=0):
    """Sines, then cosines, of pos / 10000^(2k / (d_model - apart))."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / (d_model - apart))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def attend(queries, keys, values, causal):
    """What all heads attend to, side by side: [length, d_model]."""
    outputs = []
    for q, k, v in zip(queries, keys, values, strict=True):
        scores = q @ k.T / math.sqrt(q.shape[1])
        if causal:
            scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        outputs.append(weights / weights.sum(-1, keepdims=True) @ v)
    return np.concatenate(outputs, axis=1)


class Marian:
    """The model, of its configuration and its weights by name."""

    @classmethod
    def read(cls, folder: Path):
        config = json.loads((folder / "config.json").read_text())
        return cls(config, load_file(folder / "model.safetensors"))

    def __init__(self, config, weights):
        self.config, self.weights = config, weights
        assert self.config["scale_embedding"]
        assert not self.config.get("normalize_before")
        self.act = ACTIVATIONS[self.config["activation_function"]]

    def table(self, name):
        """A table of embeddings; which are tied, the configuration says."""
        if self.config["tie_word_embeddings"]:
            if self.config["share_encoder_decoder_embeddings"]:
                name = "model.shared.weight"
            elif name == "lm_head.weight":
                name = "model.decoder.embed_tokens.weight"
        return self.weights[name].astype(np.float64)

    def embed(self, name, ids):
        d_model = self.config["d_model"]
        positions = sinusoids(d_model, len(ids), self.config.get("apart", 0))
        # They are computed only where the file has none.
        table = name.replace("embed_tokens", "embed_positions")
        positions = self.weights.get(table, positions)[: len(ids)]
        return self.table(name)[ids] * math.sqrt(d_model) + positions

    def linear(self, name, x):
        return (
            x @ self.weights[f"{name}.weight"].T.astype(np.float64) + self.weights[f"{name}.bias"]
        )

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config.get("norm_epsilon", 1e-5))
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def residual(self, norm, x, sublayer):
        if self.config.get("pre_norm"):
            return x + sublayer(self.norm(norm, x))
        return self.norm(norm, x + sublayer(x))

    def attention(self, name, queries, memory=None):
        """Attends to the memory, or to the queries themselves."""
        heads, of = self.config["encoder_attention_heads"], queries if memory is None else memory
        q, k, v = (
            np.split(self.linear(f"{name}.{part}_proj", x), heads, axis=1)
            for part, x in (("q", queries), ("k", of), ("v", of))
        )
        causal = memory is None and "decoder" in name
        return self.linear(f"{name}.out_proj", attend(q, k, v, causal))

    def unit(self, name, x):
        """The SSRU, with the matrices of queries (the gate's) and values."""
        forget = ACTIVATIONS["sigmoid"](self.linear(f"{name}.q_proj", x))
        values = x @ self.weights[f"{name}.v_proj.weight"].T.astype(np.float64)
        states = [np.zeros(x.shape[1])]
        for f, v in zip(forget, values, strict=True):
            states.append(f * states[-1] + (1 - f) * v)
        return np.maximum(states[1:], 0)

    def feed_forward(self, name, x):
        return self.linear(f"{name}.fc2", self.act(self.linear(f"{name}.fc1", x)))

    def stack(self, stack, ids, memory=None):
        x = self.embed(f"model.{stack}.embed_tokens.weight", ids)
        for number in range(self.config[f"{stack}_layers"]):
            name = f"model.{stack}.layers.{number}"
            is_unit = self.config.get("ssru") and memory is not None
            itself = partial(self.unit if is_unit else self.attention, f"{name}.self_attn")
            x = self.residual(f"{name}.self_attn_layer_norm", x, itself)
            if memory is not None:
                others = partial(self.attention, f"{name}.encoder_attn", memory=memory)
                x = self.residual(f"{name}.encoder_attn_layer_norm", x, others)
            x = self.residual(f"{name}.final_layer_norm", x, partial(self.feed_forward, name))
        return self.norm(f"model.{stack}.layer_norm", x) if self.config.get("pre_norm") else x

    def logits(self, source, target):
        """[target_length, rows]: of each target id, given those before it."""
        begun = [self.config["decoder_start_token_id"], *target[:-1]]
        x = self.stack("decoder", begun, self.stack("encoder", source))
        return x @ self.table("lm_head.weight").T + self.weights["final_logits_bias"]


class MarianTokenizer:
    """The tokenizer, where it is told to leave special tokens in a text alone."""

    def __init__(self, folder: Path):
        names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        self.config = names | json.loads((folder / "tokenizer_config.json").read_text())
        self.ids = {"source": json.loads((folder / "vocab.json").read_text())}
        separate = self.config["separate_vocabs"]
        assert (folder / "target_vocab.json").exists() == separate
        other = folder / "target_vocab.json"
        self.ids["target"] = json.loads(other.read_text()) if separate else self.ids["source"]
        self.models = {
            side: sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
            for side in ("source", "target")
        }

    def encode(self, text, side="source"):
        code, ids = [], self.ids[side]
        if text.startswith(">>") and "<<" in text:
            end = text.index("<<") + 2
            code, text = [text[:end]], text[end:]
        pieces = code + self.models[side].encode(text, out_type=str)
        unknown = ids[self.config["unk_token"]]
        return [*(ids.get(piece, unknown) for piece in pieces), ids[self.config["eos_token"]]]

    def decode(self, ids, side=None):
        names = {number: piece for piece, number in self.ids[side or "target"].items()}
        special = {self.config[f"{name}_token"] for name in ("pad", "eos", "unk")}
        pieces = [names[number] for number in ids if names[number] not in special]
        # What both sides share, theirs decodes by the source's model.
        side = side or ("target" if self.config["separate_vocabs"] else "source")
        return self.models[side].decode_pieces(pieces).replace("\u2581", " ").strip()
