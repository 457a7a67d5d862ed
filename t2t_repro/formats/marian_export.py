"""Exports a model as Marian's students are shipped: 8-bit weights, .spm vocabularies, shortlist.

export_dir/
  config.yml          the files, the search and its limits
  model.bin           the weights and their options, see `formats.marian_binary`
  vocab.spm           SentencePiece's model; or srcvocab.spm and trgvocab.spm
  lex.s2t.bin         the lexical shortlist, if the model came with one

Engines for browsers and phones read these files. They round activations to 8 bits too, so some of
their translations differ. A limit that grows with the source by more than a factor, and the
paper's length penalty, have no place there: the factor is then 3, and scores are divided by
length^α.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import yaml
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.files import whole_directory
from t2t_repro.formats.imported import NEVER, named_weights
from t2t_repro.formats.marian import ACTIVATIONS, AUTOREGRESSION, SETTINGS, TABLES, marian_name
from t2t_repro.formats.marian_binary import write_binary, write_shortlist
from t2t_repro.model.attention import recorded_by
from t2t_repro.model.dense import Dense
from t2t_repro.model.settings import LAYER_NORM_EPSILON
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight, check_exportable, layer_weights, logits_bias
from t2t_repro.text.subword_model import SubwordModel
from t2t_repro.vocabulary import PAD_ID


def write_marian_model(translator: Translator, export_dir: Path, lines: Sequence[str]) -> None:
    """Writes a model for Marian's engines on CPUs, atomically.

    Args:
        translator: its model, in float32, its subwords, search and shortlist are used.
        export_dir: the directory to make.
        lines: source sentences; their activations set the engines' rounding, see `_multipliers`.

    Raises:
        UserError: Marian cannot hold the model.
        OSError: the directory is not empty, or cannot be written.
    """
    model = translator.model
    _check_supported(model)
    spms = [side.sentencepiece() for side in translator.subwords]
    names = ["vocab.spm"] if spms[0] == spms[1] else ["srcvocab.spm", "trgvocab.spm"]
    source, target = map(_ids_in_order, translator.subwords, spms)
    settings = SETTINGS["student_config"] | _search(translator) | {"vocabs": [names[0], names[-1]]}
    with whole_directory(export_dir) as partial:
        tensors = _tensors(model, source, target) | _multipliers(translator, lines)
        options = yaml.safe_dump(_options(model, source, target))
        write_binary(partial / "model.bin", tensors, options)
        # There is one name if both sides share a model.
        for name, spm in zip(names, spms, strict=False):
            (partial / name).write_bytes(spm)
        if shortlist := translator.shortlist_file:
            write_shortlist(partial / "lex.s2t.bin", _in_marians_ids(shortlist, source, target))
            settings["shortlist"] = ["lex.s2t.bin", False]
        (partial / "config.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def _check_supported(model: Transformer) -> None:
    """Checks that Marian can hold a model.

    Raises:
        UserError: a setting has no counterpart in Marian.
    """
    layer = model.config
    widths = {layer.num_heads * depth for depth in (layer.key_depth, layer.value_depth)}
    supported = {
        "Transformer.positional_encoding": (model.positional_encoding.kind, ["concatenated"]),
        "Transformer.tied_embeddings": (model.tied_embeddings, ["all", "target_softmax"]),
        "LayerConfig.activation": (layer.activation, [*ACTIVATIONS.values()]),
        "LayerConfig.normalization": (layer.normalization, ["post"]),
        "LayerConfig.norm_epsilon": (layer.norm_epsilon, [LAYER_NORM_EPSILON]),
        "LayerConfig.decoder_self_attention": (layer.decoder_self_attention, ["attention", "ssru"]),
        "the width of all heads": (widths, [{layer.d_model}]),
    }
    check_exportable(model, "Marian", supported)


def _ids_in_order(subwords: SubwordModel, spm: bytes) -> NDArray[np.int64]:
    """Returns our id of each piece of SentencePiece's model, in the order of Marian's ids: [ids].

    Raises:
        UserError: our vocabulary lacks a piece.
    """
    processor = SentencePieceProcessor(model_proto=spm)
    ours = {piece: number for number, piece in enumerate(subwords.pieces())}
    theirs = [processor.id_to_piece(number) for number in range(len(processor))]
    if missing := [piece for piece in theirs if piece not in ours]:
        received = f"{subwords.model_path} lacks SentencePiece's piece {missing[0]!r}"
        raise UserError(f"{received}, expected all of them: give --format=saved_model.")
    return np.array([ours[piece] for piece in theirs])


def _tensors(model: Transformer, source: NDArray, target: NDArray) -> dict[str, NDArray]:
    """Returns the weights by Marian's names, float32 with two axes; rows of ids in Marian's order.

    Args:
        model: a model that `_check_supported` lets pass.
        source: our id of each of Marian's ids of the source: [ids].
        target: the same for the target.
    """
    layer = model.config
    # Weights of layers have no rows of ids.
    orders: dict[str, Any] = {"source": source, "target": target, "": slice(None)}
    named = named_weights(model, TABLES, lambda weight: marian_name(weight, layer))
    # Added below, with another value for PAD, and as zeros where the model has none.
    named.pop(TABLES["logits_bias"], None)
    tensors = {name: np.array(weight)[orders[side]] for name, (weight, side) in named.items()}
    if model.tied_embeddings == "all":
        tensors["Wemb"] = tensors.pop(TABLES["embedding/table"])
    bias = logits_bias(model)
    bias[PAD_ID] = NEVER
    tensors[TABLES["logits_bias"]] = bias[target]
    if not layer.attention_biases:
        # Marian's attention always has biases.
        kernels = [name for name in tensors if re.search("_(self|context)_W.$", name)]
        tensors |= {name.replace("_W", "_b"): np.zeros(layer.d_model) for name in kernels}
    return {name: np.atleast_2d(values).astype(np.float32) for name, values in tensors.items()}


def _multipliers(translator: Translator, lines: Sequence[str]) -> dict[str, NDArray]:
    """Computes the factors with which engines round activations to 8 bits, by Marian's names.

    There is a factor, [1, 1] float32, for the input x of each matrix, as in Marian's scripts for
    students: 127 / (m + 1.1 s), where m is the mean over sentences of the largest |x| of each, and
    s its standard deviation.
    """
    factors = {}
    for name, tensors in _recorded_inputs(translator, lines).items():
        largest = [np.abs(tensor).max() for tensor in tensors]
        factor = 127 / (np.mean(largest) + 1.1 * np.std(largest))
        factors[f"{name}_QuantMultA"] = np.array([[factor]], np.float32)
    return factors


def _recorded_inputs(translator: Translator, lines: Sequence[str]) -> dict[str, list[tf.Tensor]]:
    """Returns the inputs of each matrix by Marian's name of it, for lines and their translations.

    A list has the inputs of one line after the other.
    """
    model, subwords = translator.model, translator.subwords
    kernels = (weight for weight in layer_weights(model) if weight.kind == "kernel")
    # first=None: without warnings of lines that are too long.
    translations = [best.text for best, *_ in translator.translate(lines, first=None)]
    inputs: dict[str, list[tf.Tensor]] = {}
    outputs = []
    with ExitStack() as stack:
        for kernel in kernels:
            recorded = recorded_by(_layer_of(model, kernel))
            inputs[marian_name(kernel, model.config)] = stack.enter_context(recorded)
        for line, translation in zip(lines, translations, strict=True):
            source = tf.constant(subwords.source.encode([line]))
            target = tf.constant(subwords.target.encode([translation]))
            outputs.append(model.decode(target, model.encode(source), source))
    table = "Wemb" if model.tied_embeddings == "all" else TABLES["embedding/table"]
    # The softmax's table has two names: with a shortlist, engines call it "none".
    return inputs | {table: outputs, "none": outputs}


def _in_marians_ids(shortlist: ShortlistFile, source: NDArray, target: NDArray) -> ShortlistFile:
    """Returns a shortlist of ours in Marian's ids; `source` and `target` are as for `_tensors`."""
    marians = {ours: number for number, ours in enumerate(target.tolist())}
    # A list for each of Marian's source ids, in their order.
    lists = [[marians[ours] for ours in shortlist.of(ours_id).tolist()] for ours_id in source]
    # `always` stays in our ids: only their number is written.
    return ShortlistFile.of_lists([np.sort(ids) for ids in lists], shortlist.always)


def _layer_of(model: Transformer, kernel: LayerWeight) -> Dense:
    """Returns the `Dense` layer that a kernel belongs to."""
    layer = getattr(model, kernel.stack).layers[kernel.layer]
    attributes = vars(getattr(layer, kernel.sublayer)).values()
    return next(a for a in attributes if isinstance(a, Dense) and a.kernel is kernel.variable)


def _options(model: Transformer, source: NDArray, target: NDArray) -> dict[str, Any]:
    """Returns Marian's options of a model; `source` and `target` are as for `_tensors`."""
    layer, ties_all = model.config, model.tied_embeddings == "all"
    theirs = {ours: name for name, ours in (ACTIVATIONS | AUTOREGRESSION).items()}
    return SETTINGS["student"] | {
        "dim-emb": layer.d_model,
        "dim-vocabs": [len(source), len(target)],
        "enc-depth": model.num_layers,
        "dec-depth": model.num_decoder_layers,
        "tied-embeddings": not ties_all,
        "tied-embeddings-all": ties_all,
        "transformer-decoder-autoreg": theirs[layer.decoder_self_attention],
        "transformer-dim-ffn": layer.d_ff,
        "transformer-ffn-activation": theirs[layer.activation],
        "transformer-heads": layer.num_heads,
    }


def _search(translator: Translator) -> dict[str, Any]:
    """Returns Marian's settings of the translator's search and of its limit of the length."""
    settings, search = translator.settings, translator.settings.search
    # Marian cannot limit a translation to a number of ids more than its source has.
    has_factor = not settings.max_extra_length
    # Where a search has no such penalty, 0 stands for none.
    return {
        "beam-size": search.beam_size,
        "normalize": getattr(search, "length_penalty", 0.0),
        "word-penalty": getattr(search, "word_penalty", 0.0),
        "max-length-factor": settings.imported.max_length_factor if has_factor else 3.0,
    }
