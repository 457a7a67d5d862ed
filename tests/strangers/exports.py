"""Exports of every kind, and the operations that they have.

    python -m tests.strangers.exports

prints the lists of `t2t_repro.strangers.allowed_operations` anew.
"""

import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.sampling import Sampling
from t2t_repro.decoding.search import Search
from t2t_repro.decoding.translator import Translator, TranslatorSettings
from t2t_repro.formats.marian.text import read_marian_text
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.saved_model.stored_weights import PRECISIONS
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.text.t2t import T2TSubwords
from tests.decoding.random_translator import write_subwords
from tests.text.marian_directory import write_marian_text
from tests.text.test_in_graph import WITHOUT_LETTERS
from tests.text.test_t2t import VOCABULARY, write

_LIMITS: dict[str, Any] = {"max_extra_length": 4, "max_source_length": 24, "tokens_per_batch": 160}


class Kind(NamedTuple):
    """What is exported, and how.

    Attributes:
        subwords: makes them in a folder.
        weights: how they are stored.
        layers: arguments of `LayerConfig`.
        model: arguments of `Transformer`.
        search: finds the translations.
        more: signatures besides those that all have.
    """

    subwords: Callable[[Path], SubwordPair]
    weights: str = "float32"
    layers: Mapping[str, Any] = MappingProxyType({})
    model: Mapping[str, Any] = MappingProxyType({})
    search: Search = BeamSearch(beam_size=3, length_penalty=0.6)
    more: Sequence[str] = ()


def _sentencepiece(folder: Path) -> SubwordPair:
    return shared(SentencePieceModel(write_subwords(folder / "subwords.model")))


def _t2t(folder: Path) -> SubwordPair:
    return shared(T2TSubwords(write(folder / "subwords.model", VOCABULARY)))


def _t2t_without_letters(folder: Path) -> SubwordPair:
    return shared(T2TSubwords(write(folder / "subwords.model", WITHOUT_LETTERS)))


def _two(folder: Path) -> SubwordPair:
    return SubwordPair(
        SentencePieceModel(write_subwords(folder / "source.model")),
        T2TSubwords(write(folder / "target.model", VOCABULARY)),
    )


def _marian(folder: Path) -> SubwordPair:
    theirs = write_marian_text(folder / "theirs", clean_up_tokenization_spaces=True)
    return read_marian_text(theirs).write(folder)


KINDS = {
    "paper": Kind(_sentencepiece, more=["prefix", "sample", "alignment"]),
    "t2t": Kind(
        _t2t,
        "float32",
        {"normalization": "pre"},
        {"positional_encoding": "concatenated", "tied_embeddings": "source_target"},
        Sampling(temperature=0.7, top_k=9, nucleus=0.9),
        ["prefix"],
    ),
    "int8": Kind(
        _t2t_without_letters,
        "int8",
        {"norm": "RMSNormalization", "d_k": 3, "d_v": 5},
        {"neighbourhood": 2},
        BeamSearch(beam_size=2, length_penalty=0.0),
    ),
    "bfloat16": Kind(
        _two,
        "bfloat16",
        {},
        {
            "positional_encoding": "learned",
            "max_length": 40,
            "tied_embeddings": "none",
            "source_vocab_size": 310,
        },
        Sampling(samples=2, nucleus=0.9),
        ["sample"],
    ),
    "marian": Kind(_marian, more=["alignment"]),
}


def write_export(kind: Kind, folder: Path) -> Path:
    """Exports a model with random weights as version 1, and returns that one's directory."""
    folder.mkdir(parents=True, exist_ok=True)
    subwords = kind.subwords(folder)
    config = LayerConfig(**{"d_model": 8, "d_ff": 8, "num_heads": 2, **kind.layers})
    dtype = PRECISIONS[kind.weights]
    model = Transformer(subwords.target.size, 1, config, dtype=dtype, **kind.model)
    model.build()
    translator = Translator([model], subwords, TranslatorSettings(kind.search, **_LIMITS))
    servable = Servable(translator, kind.weights, kind.more)
    return write_saved_model(servable, folder / "exported", 1, "made")


def graph_of(version: Path) -> MetaGraphDef:
    """The one graph of a SavedModel."""
    (graph,) = SavedModel.FromString((version / "saved_model.pb").read_bytes()).meta_graphs
    return graph


def write_tiny(folder: Path) -> Path:
    """Writes what the check lets pass and is no translator, and returns its directory.

    A function calls one, which calls the body of a loop.
    """
    module = tf.Module()
    module._weights = tf.Variable([1.0, 2.0], trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def translate(source: tf.Tensor) -> dict[str, tf.Tensor]:
        count = tf.size(source)
        _, sums = tf.while_loop(
            lambda i, x: i < count, lambda i, x: (i + 1, x + module._weights), (0, tf.zeros([2]))
        )
        return {"score": sums}

    module.translate = translate
    tf.saved_model.save(module, str(folder / "1"), {"serving_default": translate})
    return folder / "1"


class Operations(NamedTuple):
    """The operations of a servable, by place; see `allowed_operations`."""

    in_graph: set[str]
    in_functions: set[str]
    in_saver: set[str]


def operations_of(graph: MetaGraphDef) -> Operations:
    """The operations that a graph has."""
    saver = {graph.saver_def.save_tensor_name.split(":")[0], graph.saver_def.restore_op_name}
    nodes = graph.graph_def.node
    of_saver = {node.attr["f"].func.name for node in nodes if node.name in saver}
    found = Operations({node.op for node in nodes}, set(), set())
    for function in graph.graph_def.library.function:
        is_saver = function.signature.name in of_saver
        place = found.in_saver if is_saver else found.in_functions
        place.update(node.op for node in function.node_def)
    return found


def together(found: list[Operations]) -> Operations:
    """The operations of several servables."""
    return Operations(*(set().union(*place) for place in zip(*found, strict=True)))


def main() -> None:
    """Exports, and prints."""
    with tempfile.TemporaryDirectory() as folder:
        found = together(
            [
                operations_of(graph_of(write_export(kind, Path(folder, name))))
                for name, kind in KINDS.items()
            ]
        )
    for place, names in found._asdict().items():
        print(f"{place.upper()}:\n{textwrap.fill(' '.join(sorted(names)), 96)}\n")


if __name__ == "__main__":
    main()
