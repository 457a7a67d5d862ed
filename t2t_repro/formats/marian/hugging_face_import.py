"""Builds our `Transformer` of the files of a Marian model, as Hugging Face saves it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from t2t_repro.errors import UserError
from t2t_repro.formats.marian.config import MarianConfig, read_marian_config, refuse_pointer
from t2t_repro.formats.marian.text import MarianText, read_marian_text
from t2t_repro.formats.marian.weights import (
    LOGITS_BIAS,
    OWN_TABLES,
    SAFETENSORS,
    TF_WEIGHTS,
    Side,
    WeightsFile,
    load_weights,
)
from t2t_repro.model.transformer import Transformer


class MarianModel(NamedTuple):
    """A Marian model, in our terms.

    Attributes:
        model: the Transformer, built and loaded; ids are in our order.
        text: its subwords.
        decoding: gin bindings of its search and limits.
        weights: the name of the file that had its weights.
    """

    model: Transformer
    text: MarianText
    decoding: str
    weights: str


def read_hugging_face(directory: Path) -> MarianModel:
    """Reads a directory that `MarianMTModel.save_pretrained` and its tokenizer's wrote.

    Args:
        directory: config.json, weights, and the files of the tokenizer.

    Raises:
        UserError: a file is missing or damaged, the files do not belong together, or the model is
            one that `Transformer` cannot be.
    """
    # First, so that a model of another kind is called by its kind, not by the files it lacks.
    config = read_marian_config(directory)
    text = read_marian_text(directory)
    file = WeightsFile(_weights_path(directory))
    _check_sizes(config, file)
    if not text.shares_ids and config.model["source_vocab_size"] is None:
        raise UserError(
            f"{directory}/config.json has source and target share an embedding, but they have "
            "vocabularies of their own: give the files of one model."
        )
    rows: dict[Side, NDArray[np.int64]] = {
        "source": _rows(directory, config, text.source.ids, config.source_rows),
        "target": _rows(directory, config, text.target.ids, config.model["vocab_size"]),
    }
    positions = file.position_kind(config.positions, config.model["config"].d_model)
    model = Transformer(**config.model | {"positional_encoding": positions})
    model.build()
    load_weights(model, file, rows)
    longest = min(config.positions, text.max_length or config.positions)
    decoding = f"{config.decoding}Translator.max_source_length = {longest}\n"
    if config.forbidden:
        forbidden = np.argsort(rows["target"])[config.forbidden].tolist()
        decoding += f"Translator.forbidden_ids = {tuple(forbidden)}\n"
    return MarianModel(model, text, decoding, file.path.name)


def _weights_path(directory: Path) -> Path:
    for name in (SAFETENSORS, TF_WEIGHTS):
        if (path := directory / name).exists():
            return path
    refuse_pointer(directory / "pytorch_model.bin")
    raise UserError(
        f"{directory} has no {SAFETENSORS} or {TF_WEIGHTS} (a pytorch_model.bin is a pickle, which "
        "can run any program): convert the model once, with pip install transformers torch "
        'sentencepiece and python -c "from transformers import MarianMTModel as M, MarianTokenizer '
        "as T; [c.from_pretrained('NAME').save_pretrained('converted') for c in (M, T)]\", where "
        "NAME is its directory or its name on the hub, and give --model=converted."
    )


def _rows(
    directory: Path, config: MarianConfig, ids: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Returns their row of each of our ids: those of pieces, then those without a piece."""
    pad, eos, *_ = ids
    if len(ids) > count or (config.pad, config.eos) != (pad, eos):
        raise UserError(
            f"{directory}/config.json has {count} ids, pad_token_id = {config.pad} and "
            f"eos_token_id = {config.eos}, but a vocabulary has {len(ids)} pieces, PAD at {pad} "
            f"and EOS at {eos}: give the files of one model."
        )
    return np.concatenate([ids, np.setdiff1d(np.arange(count), ids)])


def _check_sizes(config: MarianConfig, file: WeightsFile) -> None:
    """Compares config.json with the file, before anything of that size is built."""
    layer = config.model["config"]
    expected = {LOGITS_BIAS: (1, config.model["vocab_size"])}
    for stack, depth in (("encoder", "num_layers"), ("decoder", "num_decoder_layers")):
        last = f"model.{stack}.layers.{config.model[depth] - 1}.fc1.weight"
        expected[last] = (layer.d_ff, layer.d_model)
    if config.model["source_vocab_size"]:
        expected[OWN_TABLES["source"]] = (config.source_rows, layer.d_model)
    file.check_shapes(expected)
