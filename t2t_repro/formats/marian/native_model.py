"""Marian's model.npz: the weights, and, as "special:model.yml", the options of the model.

Our model is the same function, as Marian's training and scorer compute it (marian-dev,
src/models/transformer.h):

- Positions are T2T's, "concatenated"; ε is 1e-6; attention and logits have biases.
- Marian has no PAD. Ours is one more row of zeros, whose logit is too low to count.
- With normalization before the sub-layers Marian's own decoder leaves out the norm of earlier keys
  and values. Its scorer does not, and neither do we.
"""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import TIED, Fields, read_file
from t2t_repro.formats.marian.weights import (
    MAX_BYTES,
    NEVER,
    LayerPart,
    Side,
    Weight,
    layer_parts,
)
from t2t_repro.model.layer_config import LayerConfig, Normalization
from t2t_repro.model.transformer import OWN_SOURCE_EMBEDDING, Transformer

_EXPECTED = "an .npz file that Marian wrote: copy it again"
_OPTIONS = "special:model.yml"
_SOFTMAX, _LOGITS_BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_b"

_OTHER_DECODERS = {
    "rnn": "a simple recurrent unit (SSRU), as in students for browsers",
    "average-attention": "average attention",
}
"""What decodes in place of self-attention, by transformer-decoder-autoreg."""

_ACTIVATIONS = {
    "relu": "relu", "swish": "swish", "gelu": "gelu", "sigmoid": "sigmoid", "": "linear",
}  # fmt: skip

_REQUIRED: dict[str, tuple[Any, ...]] = {
    "factors-combine": ("sum",),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-ffn-depth": (2,),
    "transformer-postprocess-emb": ("d", ""),
}
_REQUIRED_EMPTY = (
    "factors-dim-emb", "input-types", "lemma-dependency", "lemma-dim-emb", "right-left",
    "transformer-disable-position-embeddings", "transformer-no-projection", "transformer-pool",
    "transformer-tied-layers", "ulr",
)  # fmt: skip

_WITHOUT_EFFECT = {
    "bert-train-type-embeddings", "bert-type-vocab-size", "dec-cell", "dec-cell-base-depth",
    "dec-cell-high-depth", "dim-rnn", "enc-cell", "enc-cell-depth", "enc-type",
    "layer-normalization", "output-omit-bias", "separator-symbol", "skip",
    "transformer-aan-activation", "transformer-aan-depth", "transformer-aan-nogate",
    "transformer-alibi-shift", "transformer-alibi-trainable", "transformer-depth-scaling",
    "transformer-dim-aan", "transformer-guided-alignment-layer", "transformer-no-affine",
    "transformer-no-bias", "transformer-rnn-projection", "transformer-train-position-embeddings",
    "ulr-dim-emb", "ulr-trainable-transformation", "version",
}  # fmt: skip
"""Options that change no score; some of them belong to other models."""

_SUBLAYERS = {"self_attention": "self", "memory_attention": "context", "feed_forward": "ffn"}
_MATRICES = {"query": "q", "key": "k", "value": "v", "output": "o", "inner": "1", "outer": "2"}


class NativeModel:
    """The content of an .npz file.

    Args:
        path: of the file.

    Attributes:
        rows: the numbers of ids of source and target.
        shares_embedding: whether source and target have one embedding.

    Raises:
        UserError: the file cannot be read, or its model is none that `Transformer` can be.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrays = read_file(path, _read_npz, _EXPECTED)
        if _OPTIONS not in self._arrays:
            raise UserError(f"{path} has no {_OPTIONS}, expected one as Marian writes: give that.")
        self._options = Fields(
            path, lambda _: parse_yaml(self._arrays[_OPTIONS].tobytes()), _EXPECTED
        )
        self._arguments = arguments = _arguments(self._options)
        self.shares_embedding = arguments["tied_embeddings"] not in OWN_SOURCE_EMBEDDING
        target = arguments["vocab_size"] - 1
        self.rows = (arguments["source_vocab_size"] or target + 1) - 1, target
        if self._options.value("output-omit-bias"):
            self._arrays[_LOGITS_BIAS] = np.zeros((1, target))
        # As Marian wrote it in earlier versions.
        if (transposed := self._arrays.pop("decoder_ff_logit_out_W", None)) is not None:
            self._arrays[_SOFTMAX] = transposed.T
        self._check_sizes()

    def _check_sizes(self) -> None:
        """Compares the options with the weights, before anything of that size is built."""
        sizes, layer = self._arguments, self._arguments["config"]
        depths = sizes["num_layers"], sizes["num_decoder_layers"]
        for stack, depth, rows in zip(("encoder", "decoder"), depths, self.rows, strict=True):
            self._value(f"{stack}_l{depth}_ffn_W1", (layer.d_model, layer.d_ff))
            table = "Wemb" if self.shares_embedding else f"{stack}_Wemb"
            self._value(table, (rows, layer.d_model))

    def build(self, source_ids: NDArray[np.int64], target_ids: NDArray[np.int64]) -> Transformer:
        """Builds the model.

        Args:
            source_ids: Marian's id of each of ours, -1 for PAD: [ids].
            target_ids: the same of the target.

        Raises:
            UserError: the file lacks a weight, or has others.
        """
        model = Transformer(**self._arguments)
        model.build()
        weights = [*_weights_of(model)]
        others = self._arrays.keys() - {one.name for one in weights} - {_OPTIONS}
        if others := {name for name in others if not name.startswith("special:")}:
            raise UserError(
                f"{self._path} has {', '.join(sorted(others)[:3])}, expected the weights of a "
                "Transformer with its options: a model with others cannot be imported."
            )
        ids: dict[Side, NDArray[np.int64]] = {"source": source_ids, "target": target_ids}
        for name, variable, side in weights:
            assert variable is not None
            shape = tuple(variable.shape)
            if side:
                shape = (shape[0] - 1, *shape[1:])
            value = self._value(name, shape if len(shape) == 2 else (1, *shape)).reshape(shape)
            if side:
                pad = np.full_like(value[:1], NEVER if name == _LOGITS_BIAS else 0)
                value = np.concatenate([value, pad])[ids[side]]
            variable.assign(value)
        return model

    def _value(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Returns a weight.

        Raises:
            UserError: it is missing, has another shape, or values that are not finite.
        """
        value = self._arrays.get(name)
        if value is None or value.shape != shape:
            found = "no such weight" if value is None else value.shape
            raise UserError(
                f"{self._path} has {found} for {name}, expected {shape} as its options say: give "
                "a model as Marian wrote it."
            )
        value = value.astype(np.float32)
        if not np.isfinite(value).all():
            raise UserError(f"{self._path} has values that are not finite in {name}.")
        return value


def _weights_of(model: Transformer) -> Iterator[Weight]:
    """Lists the weights of a model by the names that they have in Marian."""
    if model.own_source_embedding is None:
        yield Weight("Wemb", model.embedding.table, "target")
    else:
        yield Weight("encoder_Wemb", model.own_source_embedding.table, "source")
        yield Weight("decoder_Wemb", model.embedding.table, "target")
    if model.own_softmax is not None:
        yield Weight(_SOFTMAX, model.own_softmax.table, "target")
    yield Weight(_LOGITS_BIAS, model.logits_bias, "target")
    for part in layer_parts(model):
        yield from _of_part(part, model.config.normalization == "pre")
    for stack, norm in (
        ("encoder", model.encoder.final_norm),
        ("decoder", model.decoder.final_norm),
    ):
        if norm is not None:
            yield Weight(f"{stack}_top_ln_scale", norm.gamma)
            yield Weight(f"{stack}_top_ln_bias", norm.beta)


def _of_part(part: LayerPart, is_pre_norm: bool) -> Iterator[Weight]:
    sublayer = _SUBLAYERS[part.sublayer]
    name = f"{part.stack}_l{part.number + 1}_{sublayer}"
    weight, bias = part.weights()
    if part.name == "norm":
        name = f"{name}_{'ffn' if sublayer == 'ffn' else 'Wo'}_ln"
        end = "_pre" if is_pre_norm else ""
        yield Weight(f"{name}_scale{end}", weight)
        yield Weight(f"{name}_bias{end}", bias)
    else:
        yield Weight(f"{name}_W{_MATRICES[part.name]}", weight)
        yield Weight(f"{name}_b{_MATRICES[part.name]}", bias)


def _arguments(options: Fields) -> dict[str, Any]:
    """Returns the arguments of the `Transformer` that has these options.

    Raises:
        UserError: there is none.
    """
    if options.value("type", "amun") != "transformer":
        raise options.refused("type", "'transformer' (others are RNNs, or have several encoders)")
    cell = options.value("transformer-decoder-autoreg", "self-attention")
    if cell != "self-attention":
        what = _OTHER_DECODERS.get(cell, "another cell")
        raise options.refused("transformer-decoder-autoreg", f"'self-attention', not {what}")
    for name, expected in _REQUIRED.items():
        options.require(name, *expected)
    options.require_empty(*_REQUIRED_EMPTY)
    d_ff = options.size("transformer-dim-ffn", 2048)
    options.require("transformer-decoder-dim-ffn", 0, d_ff)
    activation = options.value("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        raise options.refused("transformer-ffn-activation", f"one of {', '.join(_ACTIVATIONS)}")
    if activation == "gelu" and _version(options) <= (1, 12, 0):
        raise options.refused("version", "v1.12.1 or later: before, gelu was x·sigmoid(1.702 x)")
    ties, (source_rows, target_rows) = _ties(options), _vocabulary_sizes(options)
    own_source = ties in OWN_SOURCE_EMBEDDING
    if not own_source and source_rows != target_rows:
        raise options.refused("dim-vocabs", "equal numbers, for the embedding is shared")
    arguments = {
        # With a row for PAD.
        "vocab_size": target_rows + 1,
        "source_vocab_size": source_rows + 1 if own_source else None,
        "num_layers": options.size("enc-depth", 1),
        "num_decoder_layers": options.size("dec-depth", 1),
        "config": LayerConfig(
            d_model=options.size("dim-emb", 512),
            d_ff=d_ff,
            num_heads=options.size("transformer-heads", 8),
            normalization=_normalization(options),
            activation=_ACTIVATIONS[activation],
            attention_biases=True,
        ),
        "positional_encoding": "concatenated",
        "tied_embeddings": ties,
        "logits_bias": True,
    }
    options.warn(options.known | _WITHOUT_EFFECT)
    return arguments


def _vocabulary_sizes(options: Fields) -> tuple[int, int]:
    sizes = options.value("dim-vocabs")
    if not (isinstance(sizes, list) and len(sizes) == 2 and all(type(n) is int for n in sizes)):
        raise options.refused("dim-vocabs", "the sizes of two vocabularies")
    return sizes[0], sizes[1]


def _ties(options: Fields) -> str:
    """Returns the `tied_embeddings` of a model."""
    names = "tied-embeddings", "tied-embeddings-src", "tied-embeddings-all"
    softmax, source, every = (bool(options.value(name)) for name in names)
    return "all" if every else TIED[source, softmax]


def _normalization(options: Fields) -> Normalization:
    defaults = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
    steps = tuple(
        str(options.value(f"transformer-{name}", default)).replace("d", "")
        for name, default in defaults.items()
    )
    if steps == ("n", "a", "n"):
        # As that version, and no earlier one, normalizes keys and values.
        if _version(options) < (1, 10, 28):
            raise options.refused("version", "v1.10.28 or later for transformer-preprocess n")
        return "pre"
    if steps != ("", "an", ""):
        raise options.refused(
            "transformer-postprocess",
            "'dan'; or 'da' with transformer-preprocess and transformer-postprocess-top n",
        )
    return "post"


def _version(options: Fields) -> tuple[int, ...]:
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(options.value("version")))
    return tuple(map(int, found.groups())) if found else (0, 0, 0)


def _read_npz(path: Path) -> dict[str, NDArray]:
    if path.suffix == ".bin":
        raise ValueError("it is of Marian's binary format, as quantized students are")
    with zipfile.ZipFile(path) as file:
        if (size := sum(one.file_size for one in file.infolist())) > MAX_BYTES:
            raise ValueError(f"it holds {size:,} bytes, at most {MAX_BYTES:,} are read")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def parse_yaml(text: bytes) -> dict[str, Any]:
    """Parses a map of options; zeros at the end, with which Marian pads, are left out.

    Raises:
        YAMLError: it is not YAML.
        ValueError: it is no map.
    """
    found = yaml.safe_load(text.split(b"\0")[0])
    if not isinstance(found, dict):
        raise ValueError("expected a map of options")
    return found
