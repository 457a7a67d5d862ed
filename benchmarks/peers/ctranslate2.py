"""CTranslate2: decoding in C++. Variants: "1x2", one worker of two threads; "2x1", two of one."""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec
from numpy.typing import NDArray

from work import OUTPUT_TOKENS, PAD_ID, ModelSize

_MAX_LENGTH = 512


def training_step(*_: Any) -> Any:
    """See `peers`."""
    raise NotImplementedError("CTranslate2 does not train")


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`."""
    supported = ctranslate2.get_supported_compute_types("cpu")
    if arguments.dtype not in supported:
        raise NotImplementedError(f"no {arguments.dtype}; it has {', '.join(sorted(supported))}")
    workers, threads = map(int, (variant or "1x2").split("x"))
    with tempfile.TemporaryDirectory() as directory:
        _random_model(size).save(directory)
        translator = ctranslate2.Translator(
            directory, compute_type=arguments.dtype, inter_threads=workers, intra_threads=threads
        )
    names = _vocabulary(size.vocab_size)
    ids = {name: i for i, name in enumerate(names)}

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        rows = [[names[i] for i in row if i != PAD_ID] for batch in sources for row in batch]
        found = translator.translate_batch(
            rows,
            max_batch_size=len(sources[0]),
            beam_size=arguments.beam,
            length_penalty=0.6,
            min_decoding_length=OUTPUT_TOKENS,
            max_decoding_length=OUTPUT_TOKENS,
        )
        for one in found:
            yield [ids[name] for name in one.hypotheses[0]]

    return decode


def _vocabulary(vocab_size: int) -> list[str]:
    return ["<blank>", "</s>", "<unk>", *(f"t{i}" for i in range(3, vocab_size))]


def _random_model(size: ModelSize) -> TransformerSpec:
    spec = TransformerSpec.from_config(
        (size.num_layers, size.num_layers), size.num_heads, pre_norm=False
    )
    random = _RandomWeights(size)
    random.embedding(spec.encoder.embeddings[0])
    random.embedding(spec.decoder.embeddings)
    for stack in (spec.encoder, spec.decoder):
        stack.scale_embeddings = True
        stack.position_encodings.encodings = random.weight(_MAX_LENGTH, size.d_model)
        for layer in stack.layer:
            random.attention(layer.self_attention, fused=3)
            if stack is spec.decoder:
                random.attention(layer.attention, fused=2)
            random.feed_forward(layer.ffn)
    random.dense(spec.decoder.projection, size.vocab_size, size.d_model)
    for register in (spec.register_source_vocabulary, spec.register_target_vocabulary):
        register(_vocabulary(size.vocab_size))
    spec.config.unk_token, spec.config.eos_token = "<unk>", "</s>"
    spec.config.bos_token = spec.config.decoder_start_token = "<blank>"
    spec.validate()
    return spec


class _RandomWeights:
    """Fills the parts of a specification."""

    def __init__(self, size: ModelSize) -> None:
        self._size = size
        self._generator = np.random.default_rng(1)

    def weight(self, rows: int, columns: int) -> NDArray[np.float32]:
        """[rows, columns], N(0, columns^-0.5)."""
        return self._generator.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def dense(self, spec: Any, out: int, into: int) -> None:
        """A linear layer."""
        spec.weight = self.weight(out, into)
        spec.bias = np.zeros(out, np.float32)

    def embedding(self, spec: Any) -> None:
        """An embedding."""
        spec.weight = self.weight(self._size.vocab_size, self._size.d_model)

    def norm(self, spec: Any) -> None:
        """A layer norm."""
        spec.gamma = np.ones(self._size.d_model, np.float32)
        spec.beta = np.zeros(self._size.d_model, np.float32)

    def attention(self, spec: Any, fused: int) -> None:
        """Attention; the last `fused` of q, k and v stand in one projection."""
        d = self._size.d_model
        if fused == 2:
            self.dense(spec.linear[0], d, d)
        self.dense(spec.linear[-2], fused * d, d)
        self.dense(spec.linear[-1], d, d)
        self.norm(spec.layer_norm)

    def feed_forward(self, spec: Any) -> None:
        """The feed-forward network."""
        self.dense(spec.linear_0, self._size.d_ff, self._size.d_model)
        self.dense(spec.linear_1, self._size.d_model, self._size.d_ff)
        self.norm(spec.layer_norm)
