"""Model directories as CTranslate2's converters write them, with random weights."""

import json
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import tensorflow as tf
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation
from ctranslate2.specs.model_spec import NumpyVariable, index_spec

from t2t_repro.model.positional_encoding import SINUSOIDS

D_MODEL, D_FF, HEADS, POSITIONS = 16, 24, 4, 40
WORDS = [f"w{number}" for number in range(30)]

_ENDS = {"decoder_start_token": "</s>", "add_source_eos": True}
# What converters set; see `write`.
FAMILIES: dict[str, dict[str, Any]] = {
    "OpenNMT-py": {
        "spec": {"num_layers": (2, 1)}, "special": ["<unk>", "<blank>", "<s>", "</s>"],
        "positions": ("interleaved", 0), "projection_bias": True, "attention_bias": False,
    },
    "OpenNMT-tf": {
        "spec": {"num_layers": 1, "pre_norm": False, "activation": Activation.SWISH},
        "special": ["<blank>", "<s>", "</s>"], "unknown_last": True, "source_lacks": 5,
    },
    "fairseq": {
        "spec": {"num_layers": 1, "pre_norm": False}, "config": _ENDS, "tied": True,
        "special": ["<s>", "<blank>", "</s>", "<unk>"], "positions": ("concatenated", 2),
    },
    "OPUS-MT": {
        "spec": {"num_layers": 1, "pre_norm": False, "activation": Activation.SWISH},
        "special": ["</s>", "<unk>"], "config": _ENDS, "zero_start": True, "tied": True,
        "positions": ("halves", 0), "projection_bias": True,
    },
    "learned positions, plain embeddings": {
        "spec": {"num_layers": 1, "activation": Activation.GELU}, "scale": 1.0, "tied": True,
        "special": ["<s>", "<pad>", "</s>", "<unk>"],
        "config": {"layer_norm_epsilon": 1e-3, "add_source_eos": True},
    },
}  # fmt: skip


def write(
    folder: Path, family: str, weights: str = "float32", **changed: Any
) -> ctranslate2.Translator:
    """Writes a directory, and opens it with CTranslate2 in float32."""
    given = FAMILIES[family] | changed
    spec = spec_of(given)
    spec.validate()
    if weights == "bfloat16":  # CTranslate2's own conversion needs PyTorch.
        spec._visit(_round)
    else:
        spec.optimize(quantization=weights)
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


def _round(part: Any, name: str, value: Any) -> None:
    """Rounds a variable to bfloat16."""
    if isinstance(value, NumpyVariable) and value.dtype == "float32" and value.shape:
        rounded = value.numpy().astype(tf.bfloat16.as_numpy_dtype)
        setattr(part, name.rpartition("/")[2], NumpyVariable(rounded))


def spec_of(given: dict[str, Any]) -> TransformerSpec:
    """Returns a specification with random weights."""
    rng = np.random.default_rng(7)
    sizes = {"activation": Activation.RELU, **given["spec"]}
    spec = TransformerSpec.from_config(num_heads=HEADS, **sizes)
    special, words = given["special"], given.get("words", WORDS)
    last = ["<unk>"] * given.get("unknown_last", False)
    tokens, source = ([*special, *words[of:], *last] for of in (0, given.get("source_lacks", 0)))
    for name, value in vars(spec.config).items():
        setattr(spec.config, name, given.get("config", {}).get(name, value))
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(tokens)

    def table(names: list[str]) -> np.ndarray:
        rows = rng.normal(0, 0.3, (len(names), D_MODEL)).astype(np.float32)
        rows[[number for number, name in enumerate(names) if name in ("<blank>", "<pad>")]] = 0
        return rows

    spec.decoder.embeddings.weight = table(tokens)
    is_tied = given.get("tied", False)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight if is_tied else table(source)
    spec.decoder.projection.weight = spec.decoder.embeddings.weight if is_tied else table(tokens)
    if given.get("projection_bias"):
        spec.decoder.projection.bias = rng.normal(0, 0.3, len(tokens)).astype(np.float32)
        spec.decoder.projection.bias[tokens.index("</s>")] += given.get("end", 0.0)
    spec.decoder.start_from_zero_embedding = given.get("zero_start", False)
    for stack in (spec.encoder, spec.decoder):
        if "scale" in given:
            stack.scale_embeddings = given["scale"]
        if "positions" in given:
            kind, first = given["positions"]
            places = np.arange(first, first + POSITIONS)
            stack.position_encodings.encodings = np.array(SINUSOIDS[kind](places, D_MODEL))
        elif "scale" in given:
            stack.position_encodings.encodings = rng.normal(0, 1, (POSITIONS, D_MODEL)).astype("f4")
    _fill(spec, rng, given.get("attention_bias", True))
    return spec


def _fill(spec: TransformerSpec, rng: np.random.Generator, attention_bias: bool) -> None:
    """Draws the weights of all layers."""
    unset: list[str] = []
    spec._visit(lambda _, name, value: unset.append(name) if value is None else None)
    for name in unset:
        scope, _, attribute = name.rpartition("/")
        part = index_spec(spec, scope)
        if attribute in ("gamma", "beta"):
            value = rng.normal(float(attribute == "gamma"), 0.2, D_MODEL)
        else:
            inside = D_FF if scope.endswith("ffn/linear_1") else D_MODEL
            joined = {"self_attention/linear_0": 3, "/attention/linear_1": 2}
            parts = next((n for end, n in joined.items() if scope.endswith(end)), 1)
            outputs = D_FF if scope.endswith("ffn/linear_0") else parts * D_MODEL
            value = rng.normal(0, 0.4, (outputs, inside))
            if attention_bias or "attention" not in scope:
                part.bias = rng.normal(0, 0.2, outputs).astype(np.float32)
        setattr(part, attribute, value.astype(np.float32))


def set_config(folder: Path, **changed: Any) -> None:
    """Changes fields of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
