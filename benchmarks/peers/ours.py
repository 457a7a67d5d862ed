"""t2t_repro, as its trainer and its translator use it."""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from make_work import subword_model
from t2t_repro.data.batch_shapes import capacity_needed
from t2t_repro.decoding.batch_plan import limit_operations_to_one_core
from t2t_repro.decoding.litert import CONFIG, LiteRTTranslator
from t2t_repro.decoding.search import Cache, DecodingConstraints, SearchResult, StepModel
from t2t_repro.decoding.settings import BeamSearch, TranslatorSettings
from t2t_repro.decoding.translator import Translator
from t2t_repro.files import read_json, write_json
from t2t_repro.formats.litert import write_litert_model
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.model.kernels.gpu import has_gpu
from t2t_repro.model.loss import CrossEntropy
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from t2t_repro.training.settings import StepSettings, adam
from t2t_repro.training.train_step import TrainStep
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from work import LABEL_SMOOTHING, LEARNING_RATE, OUTPUT_TOKENS, ROWS, Batch, ModelSize, sources_file

_SLOTS = 1024
_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def training_step(size: ModelSize, dtype: str) -> Callable[[Batch], float]:
    """See `peers`."""
    model = random_model(size, dtype)
    optimizer = adam(LEARNING_RATE)
    settings = StepSettings(CrossEntropy(LABEL_SMOOTHING))
    step = TrainStep(model, optimizer, settings, seed=1, jit_compile=has_gpu())
    number = 0

    def train(batch: Batch) -> float:
        nonlocal number
        source, target = batch.source[None], batch.target[None]
        # In the trainer a shape has so many slots; here too, or XLA would compile every batch.
        capacity = (
            -(-capacity_needed(source, target) // _SLOTS) * _SLOTS if step.jit_compile else None
        )
        result = step(number, source, target, capacity)
        number += 1
        return float(result.nll)

    return train


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`; on the cores as the command lines and scripts/serve.sh have it."""
    limit_operations_to_one_core()
    return decoder_on_any_cores(arguments, size, variant)


def decoder_on_any_cores(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """Makes what translates the sentences, as many batches at a time as there are cores.

    Every batch is a call of one worker, as in `serve`: with more workers a call would halve it.
    Variants: "whole", all sentences in one call, batched as the library does; "saved_model", every
    batch a request to the exported model; "litert", all sentences in one call of its runtime.
    """
    if variant not in ("", "whole", "saved_model", "litert"):
        raise NotImplementedError(f"no variant {variant!r}")
    dtype = arguments.dtype
    # What is stored in int8 is computed in float32.
    is_int8 = variant in ("saved_model", "litert") and dtype == "int8"
    model = random_model(size, "float32" if is_int8 else dtype)
    never_end(model)
    subwords = _Recorder(subword_model(arguments.work, size.subwords))
    workers = None if variant == "whole" else 1
    settings = TranslatorSettings(_FixedLength(arguments.beam), workers=workers)
    translator = Translator([model], shared(subwords), settings)
    if variant == "saved_model":
        return _served(translator, dtype)
    text = (arguments.work / sources_file(arguments.size)).with_suffix(".txt")
    lines = text.read_text("utf-8").splitlines()
    if variant == "litert":
        return _with_litert(translator, subwords, dtype, lines)
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        subwords.seen.clear()
        asked = _lines_of(sources, lines)
        at_once = len(asked) if variant == "whole" else len(sources[0])
        batches = [asked[first : first + at_once] for first in range(0, len(asked), at_once)]
        # The longest first, as the translator does.
        list(pool.map(translator.translate, reversed(batches)))
        yield from subwords.seen

    return decode


def _served(
    translator: Translator, weights: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """Decodes through a SavedModel, from ids to ids: the text would hide how many there are."""
    with tempfile.TemporaryDirectory() as folder:
        servable = Servable(translator, weights)
        version = write_saved_model(servable, Path(folder), 1, "benchmark")
        loaded = tf.saved_model.load(str(version))
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def translate(source: NDArray) -> NDArray:
        outputs = loaded.signatures["token_ids"](source_ids=tf.constant(source))
        return outputs["translation_ids"].numpy()

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        found = list(pool.map(translate, reversed(sources)))
        for ids in reversed(found):
            yield from ids.tolist()

    return decode


def _with_litert(
    translator: Translator, recorder: "_Recorder", weights: str, lines: Sequence[str]
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """Translates lines as `translate --litert` does; the file ends every translation."""
    settings = TranslatorSettings(BeamSearch(translator.beam_size))
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "exported"
        model = translator.with_settings(settings)
        write_litert_model(model, weights, OUTPUT_TOKENS, directory, one_line=False)
        # What is read may be longer than what is written.
        write_json(directory / CONFIG, read_json(directory / CONFIG) | {"max_source_length": 1024})
        engine = LiteRTTranslator(directory)
    engine.subwords = shared(recorder)

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        recorder.seen.clear()
        asked, at_once = _lines_of(sources, lines), len(sources[0])
        for batch in [[line] for line in asked] if at_once == 1 else [asked]:
            engine.translate(batch)
        yield from recorder.seen

    return decode


def _lines_of(sources: Sequence[NDArray], lines: Sequence[str]) -> Sequence[str]:
    """Returns the lines of batches, or of the first sentence of each."""
    step = ROWS // len(sources[0])
    return lines[: len(sources) * ROWS : step]


def random_model(size: ModelSize, dtype: str) -> Transformer:
    """Makes a model with random weights, the same every time.

    Raises:
        NotImplementedError: it does not compute in this dtype.
    """
    if dtype not in _POLICIES:
        raise NotImplementedError(f"no {dtype}")
    keras.utils.set_random_seed(1)
    config = LayerConfig(size.d_model, size.d_ff, size.num_heads, dropout=size.dropout)
    model = Transformer(size.vocab_size, size.num_layers, config, dtype=_POLICIES[dtype])
    model.build()
    return model


def never_end(model: Transformer) -> None:
    """Has a random model never choose EOS: no translation ends before the limit."""
    table = model.embedding.table
    # Their logits are 0 then, far below the best ones.
    is_special = np.arange(model.vocab_size)[:, None] <= EOS_ID
    table.assign(np.where(is_special, 0.0, table.numpy()))


class _Recorder(SentencePieceModel):
    """Keeps the ids of every translation, for the check of their number."""

    def __init__(self, model_path: Path) -> None:
        super().__init__(model_path)
        self.seen: list[list[int]] = []

    def decode(self, ids: Sequence[int]) -> str:
        """Turns ids into text, also those of a vocabulary that is larger than the text's."""
        self.seen.append([int(token) for token in ids if token != PAD_ID])
        return super().decode([int(token) % self.size for token in ids])


class _FixedLength(BeamSearch):
    """Beam search with the same limit for every sentence."""

    def search(
        self,
        model: StepModel,
        cache: Cache,
        limits: tf.Tensor,
        max_steps: int | tf.Tensor,
        n_best: int | tf.Tensor,
        constraints: DecodingConstraints,
    ) -> SearchResult:
        """Decodes a batch of sentences; `limits` and `max_steps` are ignored."""
        limits = tf.fill(tf.shape(limits), OUTPUT_TOKENS)
        return super().search(model, cache, limits, OUTPUT_TOKENS, n_best, constraints)
