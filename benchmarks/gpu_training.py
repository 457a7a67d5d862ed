"""Training throughput on a GPU beside a hand-written PyTorch Transformer, in alternation.

    python benchmarks/gpu_training.py --sizes=gpu_base,gpu_big --rounds=3

bfloat16, random sentences of three lengths, about 25,000 padded target tokens a batch; ours is
compiled by XLA, PyTorch's by torch.compile. Target tokens a second, PAD not counted; the share of
the chip's measured rate in 8192³ products; the peak of memory. Where peers cannot be installed,
`--pythons=pytorch_compiled=PYTHON` names one that has them.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alternation import add_arguments, measure, write_results
from operations import training_operations
from work import (
    EOS_ID,
    PAD_ID,
    SIZES,
    Batch,
    ModelSize,
    load_training,
    save_training,
    training_file,
)

PEERS = ("ours", "pytorch_compiled")
_LENGTHS = (24, 40, 64)
_REPEATS = 8


def main() -> None:
    """Measures every size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS)
    parser.add_argument("--tokens_per_batch", type=int, default=25_000)
    parser.set_defaults(sizes="gpu_base,gpu_big", dtypes="bfloat16")
    arguments = parser.parse_args()
    # Not among the batches of the other benchmarks.
    arguments.work = arguments.work / f"random_{arguments.tokens_per_batch}"
    arguments.work.mkdir(parents=True, exist_ok=True)
    for size in arguments.sizes.split(","):
        _write_batches(arguments.work, size, arguments.tokens_per_batch)
        for dtype in arguments.dtypes.split(","):
            _measure_case(arguments, size, dtype)


def _measure_case(arguments: argparse.Namespace, size: str, dtype: str) -> None:
    batches = load_training(arguments.work, size, arguments.batches)
    operations = sum(training_operations(SIZES[size], batch) for batch in batches)
    tokens = sum(batch.target_tokens for batch in batches)
    padded = max(batch.target.size for batch in batches)
    print(f"training {size} {dtype}: {tokens:,} target tokens a round", flush=True)
    options = ["--task=training", f"--size={size}", f"--batches={len(batches)}"]
    measured = measure(arguments, arguments.peers.split(","), dtype, options)
    labels = {
        "benchmark": "training on a GPU",
        "case": f"{size} {dtype}",
        "unit": "target tokens/s",
        "tokens_per_batch": padded,
    }
    write_results(arguments.output, measured, operations / tokens, labels)
    for one in measured[:-1]:
        kib = one.summary()["peak_device_mib"] * 1024 / padded
        print(f"  {one.peer}: {kib:.1f} KiB of device memory a padded target token", flush=True)


def _write_batches(work: Path, size: str, tokens_per_batch: int) -> None:
    generator = np.random.default_rng(1)
    batches = [
        Batch(
            *(random_sentences(generator, SIZES[size], tokens_per_batch, length) for _ in range(2))
        )
        for _ in range(_REPEATS)
        for length in _LENGTHS
    ]
    save_training(work / training_file(size), batches)


def random_sentences(
    generator: np.random.Generator, size: ModelSize, tokens_per_batch: int, length: int
) -> NDArray[np.int32]:
    """[batch, length] random ids, a multiple of 8 rows, up to a fifth of each of them PAD."""
    rows = max(8, tokens_per_batch // length // 8 * 8)
    ids = generator.integers(3, size.vocab_size, (rows, length)).astype(np.int32)
    ends = generator.integers(length * 4 // 5, length + 1, rows)
    positions = np.arange(length)[None]
    ids[positions >= ends[:, None]] = PAD_ID
    ids[positions == ends[:, None] - 1] = EOS_ID
    return ids


if __name__ == "__main__":
    main()
