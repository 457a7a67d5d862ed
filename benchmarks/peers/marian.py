"""Marian by its Python package: decoding on one thread, as its batches go to threads one by one.

Compare it on one core: taskset -c 0 python benchmarks/decoding.py --peers=ours,marian,...
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pymarian
from numpy.typing import NDArray

from work import EOS_ID, LABEL_SMOOTHING, LEARNING_RATE, OUTPUT_TOKENS, ROWS, Batch, ModelSize

_WORD = "t{}".format
_EPOCHS = 4


def training_round(
    size: ModelSize, dtype: str, variant: str, batches: Sequence[Batch]
) -> Callable[[], float]:
    """See `peers`: a training of four epochs, from text to a saved model, on the batches' lines.

    Marian makes its own batches, of as many tokens on average, from the same lines in the same
    order. The variant is the number of threads, which share a batch.
    """
    if dtype != "float32":
        raise NotImplementedError(f"no {dtype}")
    words = sum(np.count_nonzero(batch.source) for batch in batches) // len(batches)
    options = f"--after {_EPOCHS}e --mini-batch-words {words} --maxi-batch-sort none --shuffle none"
    options += f" --cpu-threads {variant or 1} --sync-sgd"
    sides = [[_line(row) for batch in batches for row in batch[side]] for side in (0, 1)]

    def do_round() -> float:
        with tempfile.TemporaryDirectory() as directory:
            _train(size, Path(directory), sides, options)
        return _EPOCHS * sum(batch.target_tokens for batch in batches)

    return do_round


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
            lines = [_line(row) for row in batch]
            # Marian's limit is a multiple of the longest source.
            limit = {"max-length-factor": (OUTPUT_TOKENS - 0.5) / batch.shape[1]}
            for translation in translator.translate(lines, **limit):
                yield [int(word[1:]) for word in translation.split()]

    return decode


def _line(row: NDArray) -> str:
    return " ".join(_WORD(i) for i in row if i > EOS_ID)


def _random_model(size: ModelSize, directory: Path) -> tuple[Path, Path]:
    """Has Marian train a model for one update; EOS then gets no probability."""
    options = "--after 1u --mini-batch 1 --cpu-threads 1"
    model, vocabulary = _train(size, directory, [[_WORD(EOS_ID + 1)]] * 2, options)
    with np.load(model) as arrays:
        weights = dict(arrays)
    weights["decoder_ff_logit_out_b"][0, 0] = -1e9
    np.savez(model, **weights)
    return model, vocabulary


def _train(
    size: ModelSize, directory: Path, sides: Sequence[Sequence[str]], options: str
) -> tuple[Path, Path]:
    """Has Marian train on lines of source and target; returns its model and vocabulary."""
    model, vocabulary, source, target = (
        directory / name for name in ("model.npz", "words.yml", "source", "target")
    )
    names = ["</s>", "<unk>", *map(_WORD, range(EOS_ID + 1, size.vocab_size))]
    vocabulary.write_text("".join(f"{name}: {i}\n" for i, name in enumerate(names)))
    for path, lines in zip((source, target), sides, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines))
    options += f"""
        --type transformer --transformer-ffn-activation relu --tied-embeddings-all --clip-norm 0
        --enc-depth {size.num_layers} --dec-depth {size.num_layers} --dim-emb {size.d_model}
        --transformer-dim-ffn {size.d_ff} --transformer-heads {size.num_heads}
        --transformer-dropout {size.dropout} --label-smoothing {LABEL_SMOOTHING}
        --cost-type ce-mean-words --learn-rate {LEARNING_RATE} --optimizer-params 0.9 0.98 1e-09
        --model {model} --vocabs {vocabulary} {vocabulary} --train-sets {source} {target}
        --max-length 1000 --workspace 500 --data-threads 1 --seed 1 --quiet
    """
    pymarian.Trainer(" ".join(options.split())).train()
    return model, vocabulary
