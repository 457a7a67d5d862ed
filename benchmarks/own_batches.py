"""Training speed with the batches that a checkout makes itself, against another checkout.

    python -m t2t_repro.datagen --gin_file=gin/base_ende.gin --data_dir=<data>
    git worktree add /tmp/before <commit>
    python benchmarks/own_batches.py --before=/tmp/before --store=<data>/prepared/train.tokens --xla

`before_after.py` gives both the same batches; here each pads, packs and fills them in its own way.
A round is a few batches, from the shortest to the longest of an epoch; the rate counts real target
tokens. Prints the rates of every round, and the median of the ratios after / before.
"""

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from before_after import HERE, compare, warm_worker
from work import DEFAULT_DIRECTORY, LEARNING_RATE, SIZES
from worker import Round, serve

_PADDED_LENGTH = 256


def main() -> None:
    """Measures both checkouts, or is one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--store", type=Path, required=True, help="a directory train.tokens")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--tokens", type=int, default=3125, help="of a batch, of one slice")
    parser.add_argument("--xla", action="store_true")
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--log_dir", type=Path, default=DEFAULT_DIRECTORY / "logs")
    arguments = parser.parse_args()
    if arguments.before:
        compare_checkouts(arguments)
    else:
        serve(lambda: get_ready(arguments))


def compare_checkouts(arguments: argparse.Namespace) -> None:
    """Has both checkouts do rounds in turn."""
    options = [f"--store={arguments.store}", f"--size={arguments.size}"]
    options += [f"--precision={arguments.precision}", f"--tokens={arguments.tokens}"]
    options += [f"--batches={arguments.batches}", *(["--xla"] if arguments.xla else [])]
    case = f"{arguments.size} {arguments.precision}{' XLA' if arguments.xla else ''}"
    with ExitStack() as stack:
        workers = [
            warm_worker(
                stack,
                Path(__file__),
                checkout,
                options,
                arguments.log_dir / f"own_batches_{name}.log",
            )
            for name, checkout in (("before", arguments.before.resolve()), ("after", HERE))
        ]
        compare(case, workers, arguments.rounds)


def get_ready(arguments: argparse.Namespace) -> Round:
    """A training step of the checkout that is on the path, and batches for it."""
    import t2t_repro
    from t2t_repro.model.layer_config import LayerConfig
    from t2t_repro.model.transformer import Transformer
    from t2t_repro.training.optimizer import adam
    from t2t_repro.training.train_step import TrainStep

    assert str(Path(t2t_repro.__file__).parents[1]) == os.environ["PYTHONPATH"]
    size = SIZES[arguments.size]
    config = LayerConfig(
        d_model=size.d_model, d_ff=size.d_ff, num_heads=size.num_heads, dropout=size.dropout
    )
    model = Transformer(37_000, size.num_layers, config, dtype=arguments.precision)
    model.build()
    optimizer = adam(LEARNING_RATE)
    step = TrainStep(model, optimizer, 1, jit_compile=arguments.xla)
    chosen = _batches(arguments)
    tokens = sum(int(np.count_nonzero(target)) for _, target, *_ in chosen)

    def train() -> float:
        for batch in chosen:
            float(step(0, *batch).loss)
        return tokens

    return train


def _batches(arguments: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Some batches of the first epoch, as the checkout makes them."""
    from t2t_repro.data.batches import Batches
    from t2t_repro.data.token_store import TokenStore

    store = TokenStore(arguments.store)
    try:
        batches = Batches(store, seed=1, is_static=arguments.xla, tokens_per_batch=arguments.tokens)
        epoch = batches.epoch(0, 0)
    except TypeError:  # Before batches had slices of their own.
        batches = Batches(store, _PADDED_LENGTH, 1, arguments.xla, arguments.tokens)
        epoch = batches.epoch(0, 0, 1)  # type: ignore[arg-type]
    made = [tuple(part.numpy() for part in batch) for batch in epoch]
    made.sort(key=lambda batch: batch[0].shape[2] * batch[1].shape[2])
    places = np.linspace(0, len(made) - 1, 2 * arguments.batches + 1)[1::2].astype(int)
    return [made[place] for place in places]


if __name__ == "__main__":
    main()
