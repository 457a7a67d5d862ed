"""The work that all peers share: padded batches of token ids, and sentences to translate.

Needs NumPy alone, as every peer reads it in an environment of its own; `make_work.py` writes it.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PAD_ID = 0
EOS_ID = 1
OUTPUT_TOKENS = 24
"""Every translation has exactly so many, so that every peer decodes the same amount."""

ROWS = 32
"""Sentences decoded together."""

LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-4

DEFAULT_DIRECTORY = Path("~/.cache/t2t_repro/benchmarks").expanduser()


class ModelSize(NamedTuple):
    """The sizes of a Transformer, under the paper's names.

    Attributes:
        vocab_size: rows of the one embedding that source, target and softmax share.
        num_layers: of the encoder, and of the decoder.
        d_model: width.
        d_ff: inner width of the feed-forward network.
        num_heads: h.
        dropout: on every sub-layer's output, and on embedding + position.
    """

    vocab_size: int
    num_layers: int
    d_model: int
    d_ff: int
    num_heads: int
    dropout: float

    @property
    def subwords(self) -> int:
        """How many of the vocabulary the text is in: Multi30k is too small for more than 10,000."""
        return min(self.vocab_size, 10_000)


SIZES = {
    "base": ModelSize(8_000, 6, 512, 2048, 8, 0.1),
    "base_32k": ModelSize(32_000, 6, 512, 2048, 8, 0.1),
    "base_37k": ModelSize(37_000, 6, 512, 2048, 8, 0.1),
    "base_16k": ModelSize(16_000, 6, 512, 2048, 8, 0.1),
    "small_32k": ModelSize(32_000, 3, 256, 1024, 4, 0.1),
    "tiny": ModelSize(10_000, 4, 128, 256, 4, 0.3),
    "smoke": ModelSize(10_000, 1, 32, 64, 2, 0.1),
}
"""base: the paper's, with a small vocabulary; base_32k and so on: with larger ones; tiny: Wu
et al. 2021; smoke: to see that all runs."""


class Batch(NamedTuple):
    """A training batch, PAD after the end of every sentence, EOS its last id.

    Attributes:
        source: [batch, source_length] int32.
        target: [batch, target_length] int32.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]

    @property
    def target_tokens(self) -> int:
        """Target tokens, PAD left out: what throughput counts."""
        return int(np.count_nonzero(self.target != PAD_ID))


def save_training(path: Path, batches: list[Batch]) -> None:
    """Writes training batches in their order."""
    np.savez_compressed(path, *(side for batch in batches for side in batch))


def load_training(directory: Path, size: str, count: int | None = None) -> list[Batch]:
    """Reads the first `count` training batches for a model size, or all."""
    sides = _load(directory / training_file(size))
    return list(map(Batch, sides[::2], sides[1::2]))[:count]


def load_sources(directory: Path, size: str, count: int | None = None) -> list[NDArray[np.int32]]:
    """Reads the sentences to translate, in batches of `ROWS`, shortest first.

    Returns:
        the first `count` batches, or all: [batch, source_length] int32 each, EOS last, then PAD.
    """
    return _load(directory / sources_file(size))[:count]


def training_file(size: str) -> str:
    """The name of the file with the training batches of a model size."""
    return f"training_{size}.npz"


def sources_file(size: str) -> str:
    """The name of the file with the sentences to translate, in the vocabulary of a model size."""
    return f"sources_{SIZES[size].subwords}.npz"


def _load(path: Path) -> list[NDArray[np.int32]]:
    if not path.is_file():
        raise SystemExit(f"error: {path} is not there: run benchmarks/make_work.py.")
    with np.load(path) as arrays:
        return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
