"""Marian by its Python package: decoding on one thread, as its batches go to threads one by one.

Compare it on one core: taskset -c 0 python benchmarks/decoding.py --peers=ours,marian,...
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pymarian
from numpy.typing import NDArray

from work import EOS_ID, OUTPUT_TOKENS, ROWS, ModelSize

_WORD = "t{}".format


def training_step(*_: Any) -> Any:
    """See `peers`."""
    raise NotImplementedError("Marian makes its own batches, so it cannot be given those of others")


def decoder(
    arguments: argparse.Namespace, size: ModelSize, variant: str
) -> Callable[[Sequence[NDArray]], Iterator[Sequence[int]]]:
    """See `peers`."""
    if variant or arguments.dtype != "float32":
        raise NotImplementedError(f"no {arguments.dtype} {variant}")
    with tempfile.TemporaryDirectory() as directory:
        model, vocabulary = _random_model(size, Path(directory))
        options = f"-m {model} -v {vocabulary} {vocabulary} -b {arguments.beam} -n 0.6 --quiet"
        options += f" --cpu-threads 1 --workspace 500 --mini-batch {ROWS}"
        translator = pymarian.Translator(options)

    def decode(sources: Sequence[NDArray]) -> Iterator[Sequence[int]]:
        for batch in sources:
            lines = [" ".join(_WORD(i) for i in row if i > EOS_ID) for row in batch]
            # Marian's limit is a multiple of the longest source.
            limit = {"max-length-factor": (OUTPUT_TOKENS - 0.5) / batch.shape[1]}
            for translation in translator.translate(lines, **limit):
                yield [int(word[1:]) for word in translation.split()]

    return decode


def _random_model(size: ModelSize, directory: Path) -> tuple[Path, Path]:
    """Has Marian train a model for one update; EOS then gets no probability."""
    model, vocabulary, text = (directory / name for name in ("model.npz", "words.yml", "text"))
    names = ["</s>", "<unk>", *map(_WORD, range(EOS_ID + 1, size.vocab_size))]
    vocabulary.write_text("".join(f"{name}: {i}\n" for i, name in enumerate(names)))
    text.write_text(f"{_WORD(EOS_ID + 1)}\n")
    sizes = {
        "enc-depth": size.num_layers,
        "dec-depth": size.num_layers,
        "dim-emb": size.d_model,
        "transformer-dim-ffn": size.d_ff,
        "transformer-heads": size.num_heads,
    }
    options = [f"--{name}={value}" for name, value in sizes.items()]
    options += ["--type=transformer", "--transformer-ffn-activation=relu", "--tied-embeddings-all"]
    options += ["--after=1u", "--mini-batch=1", "--cpu-threads=1", "--workspace=500", "--seed=1"]
    options += ["--model", str(model), "--vocabs", *[str(vocabulary)] * 2]
    options += ["--train-sets", *[str(text)] * 2]
    train = [sys.executable, "-m", "pymarian", "train", "--quiet", *options]
    subprocess.run(train, check=True)
    with np.load(model) as arrays:
        weights = dict(arrays)
    weights["decoder_ff_logit_out_b"][0, 0] = -1e9
    np.savez(model, **weights)
    return model, vocabulary
