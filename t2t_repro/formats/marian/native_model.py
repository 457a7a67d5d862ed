"""Marian's model.npz: the weights, and, as "special:model.yml", the options of the model.

Our model is the same function, as Marian's training and scorer compute it (marian-dev,
src/models/transformer.h):

- Positions are T2T's, "concatenated"; ε is 1e-6; attention and logits have biases.
- Marian has no PAD. Ours is one more row of zeros, whose logit is too low to count.
- With normalization before the sub-layers Marian's own decoder leaves out the norm of earlier keys
  and values. Its scorer does not, and neither do we.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from t2t_repro.formats.marian.fields import TIED, Fields, read_file
from t2t_repro.formats.marian.model import NEVER, Weight, WeightsFile, table_weights
from t2t_repro.model.layer_config import LayerConfig, Normalization
from t2t_repro.model.transformer import OWN_SOURCE_EMBEDDING, Transformer
from t2t_repro.runs.weights import layer_weights

_EXPECTED = "an .npz file that Marian wrote: copy it again"
_OPTIONS = "special:model.yml"
_SOFTMAX, _LOGITS_BIAS = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_b"
_SHARED = "Wemb"
_OWN_TABLES = {"source": "encoder_Wemb", "target": "decoder_Wemb"}

_ACTIVATIONS = {
    "relu": "relu", "swish": "swish", "gelu": "gelu", "sigmoid": "sigmoid", "": "linear",
}  # fmt: skip

_REQUIRED: dict[str, tuple[Any, ...]] = {
    "factors-combine": ("sum",),
    "transformer-attention-mask": ("default",),
    # Others are recurrent, such as the SSRU of students for browsers.
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-ffn-depth": (2,),
    "transformer-postprocess-emb": ("d", ""),
    # Others are RNNs, or have several encoders.
    "type": ("transformer",),
}
_REQUIRED_EMPTY = (
    "factors-dim-emb", "input-types", "lemma-dependency", "lemma-dim-emb", "right-left",
    "transformer-disable-position-embeddings", "transformer-no-projection", "transformer-pool",
    "transformer-tied-layers", "ulr",
)  # fmt: skip

_WITHOUT_EFFECT = {
    "bert-train-type-embeddings", "bert-type-vocab-size", "dec-cell", "dec-cell-base-depth",
    "dec-cell-high-depth", "dim-rnn", "enc-cell", "enc-cell-depth", "enc-type",
    "separator-symbol", "transformer-aan-activation", "transformer-aan-depth",
    "transformer-depth-scaling", "transformer-dim-aan", "transformer-guided-alignment-layer",
    "transformer-train-position-embeddings", "version",
}  # fmt: skip
"""Options that say something and change no score; most of them belong to other models."""

_STEPS: dict[Normalization, tuple[str, str, str]] = {"post": ("", "an", ""), "pre": ("n", "a", "n")}
"""transformer-preprocess, -postprocess and -postprocess-top, without the d of dropout."""

_SUBLAYERS = {"self_attention": "self", "memory_attention": "context", "feed_forward": "ffn"}
_MATRICES = {"query": "q", "key": "k", "value": "v", "output": "o", "inner": "1", "outer": "2"}
_KINDS = {"kernel": "W", "bias": "b", "gamma": "scale", "beta": "bias"}


class NativeModel:
    """The content of an .npz file.

    Args:
        path: of the file.

    Attributes:
        rows: the numbers of ids of source and target.

    Raises:
        UserError: the file cannot be read, or its model is none that `Transformer` can be.
    """

    def __init__(self, path: Path) -> None:
        arrays = read_file(path, _read_npz, _EXPECTED)
        text = arrays.pop(_OPTIONS)
        options = Fields(path, lambda _: parse_yaml(text.tobytes()), _EXPECTED)
        self._arguments = arguments = _arguments(options)
        target = arguments["vocab_size"] - 1
        self.rows = (arguments["source_vocab_size"] or target + 1) - 1, target
        if options.value("output-omit-bias"):
            arrays[_LOGITS_BIAS] = np.zeros((1, target))
        options.warn(_WITHOUT_EFFECT)
        # As Marian wrote it in earlier versions.
        if (transposed := arrays.pop("decoder_ff_logit_out_W", None)) is not None:
            arrays[_SOFTMAX] = transposed.T
        self._file = WeightsFile(path, arrays)
        self._file.check_held(arguments)

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
        self._file.check_names({weight.name for weight in weights})
        ids = {"source": source_ids, "target": target_ids}
        for name, variable, side in weights:
            shape = tuple(variable.shape)
            if side:
                shape = (shape[0] - 1, *shape[1:])
            value = self._file.value(name, shape if len(shape) == 2 else (1, *shape)).reshape(shape)
            if side:
                pad = np.full_like(value[:1], NEVER if name == _LOGITS_BIAS else 0)
                value = np.concatenate([value, pad])[ids[side]]
            variable.assign(value)
        return model


def _weights_of(model: Transformer) -> Iterator[Weight]:
    """Lists the weights of a model by the names that they have in Marian."""
    yield from table_weights(model, _SHARED, _OWN_TABLES, _SOFTMAX, _LOGITS_BIAS)
    end = "_pre" if model.config.normalization == "pre" else ""
    for one in layer_weights(model):
        kind, sublayer = _KINDS[one.kind], _SUBLAYERS.get(one.sublayer)
        name = f"{one.stack}_l{one.layer + 1}_{sublayer}"
        if sublayer is None:
            name = f"{one.stack}_top_ln_{kind}"
        elif one.part == "norm":
            name = f"{name}_{'ffn' if sublayer == 'ffn' else 'Wo'}_ln_{kind}{end}"
        else:
            name = f"{name}_{kind}{_MATRICES[one.part]}"
        yield Weight(name, one.variable)


def _arguments(options: Fields) -> dict[str, Any]:
    """Returns the arguments of the `Transformer` that has these options.

    Raises:
        UserError: there is none.
    """
    for name, expected in _REQUIRED.items():
        options.require(name, *expected)
    options.require_empty(*_REQUIRED_EMPTY)
    d_ff = options.size("transformer-dim-ffn", 2048)
    options.require("transformer-decoder-dim-ffn", 0, d_ff)
    activation = options.one_of("transformer-ffn-activation", _ACTIVATIONS, "swish")
    if activation == "gelu" and _version(options) <= (1, 12, 0):
        raise options.refused("version", "v1.12.1 or later: before, gelu was x·sigmoid(1.702 x)")
    softmax, source = (bool(options.value(f"tied-embeddings{end}")) for end in ("", "-src"))
    ties = "all" if options.value("tied-embeddings-all") else TIED[source, softmax]
    sizes = options.value("dim-vocabs", [])
    if [type(size) for size in sizes] != [int, int]:
        raise options.refused("dim-vocabs", "the sizes of two vocabularies")
    own_source = ties in OWN_SOURCE_EMBEDDING
    if not own_source and sizes[0] != sizes[1]:
        raise options.refused("dim-vocabs", "equal numbers, for the embedding is shared")
    return {
        # With a row for PAD.
        "vocab_size": sizes[1] + 1,
        "source_vocab_size": sizes[0] + 1 if own_source else None,
        "num_layers": options.size("enc-depth", 1),
        "num_decoder_layers": options.size("dec-depth", 1),
        "config": LayerConfig(
            d_model=options.size("dim-emb", 512),
            d_ff=d_ff,
            num_heads=options.size("transformer-heads", 8),
            normalization=_normalization(options),
            activation=activation,
            attention_biases=True,
        ),
        "positional_encoding": "concatenated",
        "tied_embeddings": ties,
        "logits_bias": True,
    }


def _normalization(options: Fields) -> Normalization:
    defaults = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
    steps = {
        f"transformer-{name}": str(options.value(f"transformer-{name}", default)).replace("d", "")
        for name, default in defaults.items()
    }
    found: Normalization = "pre" if steps["transformer-preprocess"] else "post"
    for (name, step), expected in zip(steps.items(), _STEPS[found], strict=True):
        if step != expected:
            raise options.refused(name, f"{expected!r} in a model of {found}-norm (but for d)")
    # As that version, and no earlier one, normalizes keys and values.
    if found == "pre" and _version(options) < (1, 10, 28):
        raise options.refused("version", "v1.10.28 or later for transformer-preprocess n")
    return found


def _version(options: Fields) -> tuple[int, ...]:
    found = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(options.value("version")))
    return tuple(map(int, found.groups())) if found else (0, 0, 0)


def _read_npz(path: Path) -> dict[str, NDArray]:
    if path.suffix == ".bin":
        raise ValueError("it is of Marian's binary format, as quantized students are")
    with np.load(path, allow_pickle=False) as arrays:
        # Other special members than the options are not of the model.
        names = [name for name in arrays.files if not name.startswith("special:")]
        return {name: arrays[name] for name in [*names, _OPTIONS]}


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
