"""Weights of Hugging Face's Marian models, and where they are in our `Transformer`.

PyTorch has matrices the other way round, [outputs, inputs], and a bias of the logits with one row.
Rows of pieces are in the order of their vocabulary. All else is a matter of names.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.model.attention import MultiHeadAttention
from t2t_repro.model.decoder import Decoder, DecoderLayer
from t2t_repro.model.dense import Dense
from t2t_repro.model.encoder import Encoder, EncoderLayer
from t2t_repro.model.transformer import Transformer
from t2t_repro.strangers.weights_file import WeightsFile

Side = Literal["source", "target"]

LOGITS_BIAS = "final_logits_bias"
SHARED, SOFTMAX = "model.shared.weight", "lm_head.weight"
OWN_TABLES: dict[Side, str] = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
}
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


class Weight(NamedTuple):
    """A weight of both.

    Attributes:
        name: theirs.
        variable: ours; None for a bias that our layer has not.
        rows: whose pieces its rows are of, if they are.
    """

    name: str
    variable: keras.Variable | None
    rows: Side | None = None

    def theirs(self, value: NDArray[np.float32]) -> NDArray[np.float32]:
        """Our value in their shape; its rows stay in our order."""
        if self.name == LOGITS_BIAS:
            return value[None]
        return value if self.rows else value.T

    def ours(self, value: NDArray[np.float32]) -> NDArray[np.float32]:
        """Their value in our shape; its rows stay in their order."""
        if self.name == LOGITS_BIAS:
            return value[0]
        return value if self.rows else value.T

    @property
    def shape(self) -> tuple[int, ...]:
        """Of their value."""
        assert self.variable is not None
        shape = tuple(self.variable.shape)
        if self.name == LOGITS_BIAS:
            return (1, *shape)
        return shape if self.rows else shape[::-1]


def weights_of(model: Transformer) -> Iterator[Weight]:
    """Lists all weights of a model, each with its name there.

    Args:
        model: built, with all that Marian's models have: biases in attention and of the logits.

    Yields:
        weights whose `variable` is there.
    """
    if model.own_source_embedding is None:
        yield Weight(SHARED, model.embedding.table, "target")
    else:
        yield Weight(OWN_TABLES["source"], model.own_source_embedding.table, "source")
        yield Weight(OWN_TABLES["target"], model.embedding.table, "target")
    if model.own_softmax is not None:
        yield Weight(SOFTMAX, model.own_softmax.table, "target")
    assert model.logits_bias is not None
    yield Weight(LOGITS_BIAS, model.logits_bias, "target")
    yield from layer_weights(model)


def layer_weights(model: Transformer) -> Iterator[Weight]:
    """Lists the weights of all layers; `variable` is None for biases that a model lacks."""
    stacks: dict[str, Encoder | Decoder] = {"encoder": model.encoder, "decoder": model.decoder}
    for name, stack in stacks.items():
        for number, layer in enumerate(stack.layers):
            yield from _of_layer(f"model.{name}.layers.{number}", layer)


def _of_layer(name: str, layer: EncoderLayer | DecoderLayer) -> Iterator[Weight]:
    yield from _of_attention(f"{name}.self_attn", layer.self_attention)
    yield from _of_norm(f"{name}.self_attn_layer_norm", layer.around_self_attention.norm)
    if isinstance(layer, DecoderLayer):
        yield from _of_attention(f"{name}.encoder_attn", layer.memory_attention)
        yield from _of_norm(f"{name}.encoder_attn_layer_norm", layer.around_memory_attention.norm)
    yield from _of_dense(f"{name}.fc1", layer.feed_forward.inner)
    yield from _of_dense(f"{name}.fc2", layer.feed_forward.outer)
    yield from _of_norm(f"{name}.final_layer_norm", layer.around_feed_forward.norm)


def _of_attention(name: str, attention: MultiHeadAttention) -> Iterator[Weight]:
    yield from _of_dense(f"{name}.q_proj", attention.query_projection)
    yield from _of_dense(f"{name}.k_proj", attention.key_projection)
    yield from _of_dense(f"{name}.v_proj", attention.value_projection)
    yield from _of_dense(f"{name}.out_proj", attention.output_projection)


def _of_dense(name: str, dense: Dense) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", dense.kernel)
    yield Weight(f"{name}.bias", dense.bias)


def _of_norm(name: str, norm: keras.layers.LayerNormalization) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", norm.gamma)
    yield Weight(f"{name}.bias", norm.beta)


def load_weights(
    model: Transformer, file: WeightsFile, rows: Mapping[Side, NDArray[np.int64]]
) -> None:
    """Gives a model the weights of a file.

    Args:
        model: built, see `weights_of`.
        file: their weights, all of them and no others.
        rows: of either side, which of their ids each of ours is: [ids], every one once.

    Raises:
        UserError: the file is of another model.
    """
    weights = list(weights_of(model))
    check_shapes({weight.name: weight.shape for weight in weights}, file)
    _check_no_others([weight.name for weight in weights], file)
    for weight in weights:
        assert weight.variable is not None
        value = weight.ours(_finite(file, weight.name))
        weight.variable.assign(value[rows[weight.rows]] if weight.rows else value)
    _check_copies(model, file)
    if np.any(model.embedding.table[0]):
        raise UserError(
            f"{file.path} has numbers in the row of PAD, with which the decoder begins, expected "
            "zeros: only models that begin with a vector of zeros can be imported."
        )


def check_shapes(expected: Mapping[str, tuple[int, ...]], file: WeightsFile) -> None:
    """Checks that a file has tensors of these shapes, by name.

    Raises:
        UserError: it has not.
    """
    for name, shape in expected.items():
        if (there := file.shapes.get(name)) != shape:
            found = "no such weight" if there is None else f"the shape {list(there)}"
            raise UserError(
                f"{file.path} has {found} for {name}, expected {list(shape)} as config.json says: "
                "give the files of one model."
            )


def _check_no_others(names: Collection[str], file: WeightsFile) -> None:
    known = {*names, SHARED, SOFTMAX, *OWN_TABLES.values(), *POSITIONS}
    if others := sorted(file.shapes.keys() - known):
        raise UserError(
            f"{file.path} has {', '.join(others[:3])}, expected the weights of a MarianMTModel and "
            "no others: give such a model."
        )


def _finite(file: WeightsFile, name: str) -> NDArray[np.float32]:
    value = file.read(name)
    if not np.isfinite(value).all():
        raise UserError(
            f"{file.path} has values that are not finite in {name}: give weights that can be used."
        )
    return value


def _check_copies(model: Transformer, file: WeightsFile) -> None:
    """Holds what a file says twice, or need not say, against what the model has."""
    names = {weight.name for weight in weights_of(model)}
    table = SHARED if SHARED in names else OWN_TABLES["target"]
    copies = {name: table for name in (SHARED, SOFTMAX, *OWN_TABLES.values()) if name not in names}
    for name, original in copies.items():
        if name in file.shapes and not np.array_equal(file.read(name), file.read(original)):
            raise UserError(
                f"{file.path} has {name} and {original} with other values, expected the same as "
                "config.json ties them: give the files of one model."
            )
    for name in filter(file.shapes.__contains__, POSITIONS):
        there = file.read(name)
        expected = np.asarray(model.positional_encoding.encode(ops.arange(len(there))))
        if there.shape != expected.shape or not np.allclose(there, expected, atol=1e-3):
            raise UserError(
                f"{file.path} has {name} with positions of its own, expected sines and cosines: "
                "only models with these can be imported."
            )
