"""What each kernel gains: the program with its formula in that one's place, in alternation.

    python benchmarks/kernels.py --sizes=base --dtype=float32 --rounds=5

For the kernels of t2t_repro/model/kernels that gain speed on a CPU: target tokens/s of training, or
sentences/s of decoding (beam 4), with all kernels over that with all but this one. Left out are
those for GPUs (gpu.py), for memory (blocked_attention), and for the right gradient (bias). The work
is that of `training.py` and `decoding.py`: make it with make_work.py.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import keras
import tensorflow as tf

from alternation import some_of
from peers import ours
from t2t_repro.decoding import beam_search
from t2t_repro.model import attention, cache, dropout, embedding, layer_norm, loss
from t2t_repro.model.kernels import cross_entropy
from t2t_repro.training import gradients, optimizer
from work import DEFAULT_DIRECTORY, SIZES, load_sources, load_training

IN_TRAINING: dict[str, tuple[ModuleType, str, Any]] = {
    "adam": (optimizer, "Adam", keras.optimizers.Adam),
    "cross_entropy": (cross_entropy, "summed_cross_entropy", loss.summed_cross_entropy),
    "dropout_bits": (dropout, "_random_levels", dropout.random_levels),
    "layer_norm": (layer_norm, "_layer_norm", layer_norm.layer_norm),
    "look_up": (embedding, "_look_up", tf.gather),
    "packing": (gradients, "PLAIN", True),
    "softmax": (attention, "_softmax", attention.softmax),
}
IN_DECODING: dict[str, tuple[ModuleType, str, Any]] = {
    "cache_in_place": (cache, "_write_rows", cache.write_rows),
    "best_extensions": (beam_search, "_best_extensions", beam_search.best_extensions),
}
"""Where a kernel is chosen, and the formula that it replaces."""


def main() -> None:
    """Measures every kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=some_of(SIZES), default="base,tiny")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--work", type=Path, default=DEFAULT_DIRECTORY / "work")
    options = parser.parse_args()
    for size in options.sizes:
        for kernels, make in ((IN_TRAINING, training_round), (IN_DECODING, decoding_round)):
            with_all = make(options, size)
            cases = {name: [place] for name, place in kernels.items()}
            for name, places in {**cases, "all of these": [*kernels.values()]}.items():
                with formulas_at(places):
                    without = make(options, size)
                gains = [_seconds(without) / _seconds(with_all) for _ in range(options.rounds)]
                print(f"{size} {options.dtype} {name}: {statistics.median(gains):.2f}", flush=True)


@contextmanager
def formulas_at(places: Iterable[tuple[ModuleType, str, Any]]) -> Iterator[None]:
    """Has what is traced meanwhile compute by formulas in the place of kernels."""
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(mock.patch.object(*place))
        yield


def training_round(options: argparse.Namespace, size: str) -> Callable[[], object]:
    """Updates on the batches; traced already."""
    train = ours.training_step(SIZES[size], options.dtype)
    batches = load_training(options.work, size, options.batches)
    for batch in batches:
        train(batch)
    return lambda: [train(batch) for batch in batches]


def decoding_round(options: argparse.Namespace, size: str) -> Callable[[], object]:
    """Translates the sentences; traced already."""
    wanted = SimpleNamespace(work=options.work, size=size, dtype=options.dtype, beam=4)
    decode = ours.decoder_on_any_cores(wanted, SIZES[size], "")  # type: ignore[arg-type]
    sources = load_sources(options.work, size, options.batches)
    list(decode(sources))
    return lambda: list(decode(sources))


def _seconds(do_round: Callable[[], object]) -> float:
    began = time.perf_counter()
    do_round()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
