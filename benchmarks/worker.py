"""One measuring process: a peer, ready and warm, that does a round of work whenever it is told to.

`alternation.py` starts it with the Python of the peer's environment and talks to it in JSON lines:
it answers {"ready": ...} or {"unsupported": reason} once, then every line it is sent with a round.
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from work import EOS_ID, OUTPUT_TOKENS, SIZES, load_sources, load_training

Round = Callable[[], float]
"""Does a round and returns how much it did: target tokens or sentences."""


def main() -> None:
    """Gets ready, then does rounds until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=_TASKS, required=True)
    parser.add_argument("--peer", required=True, help="a module in peers, @variant behind it")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--batches", type=int)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    serve(lambda: _TASKS[arguments.task](arguments))


def serve(get_ready: Callable[[], Round]) -> None:
    """Answers on standard output, as `alternation.Worker` expects it.

    Args:
        get_ready: makes what is measured; NotImplementedError becomes the "unsupported" answer.
    """
    # What libraries print must not get among the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        do_round = get_ready()
        do_round()  # every shape once
    except NotImplementedError as error:
        print(json.dumps({"unsupported": str(error)}), file=answers)
        return
    print(json.dumps({"ready": _versions()}), file=answers)
    for _ in sys.stdin:
        print(json.dumps(_timed(do_round)), file=answers)


def _timed(do_round: Round) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    amount = do_round()
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "amount": amount,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_mib": after.ru_maxrss / 1024,
    }


def _training(arguments: argparse.Namespace) -> Round:
    """Steps over the fixed list of batches; the loss is waited for after every one."""
    name, _, variant = arguments.peer.partition("@")
    peer = importlib.import_module(f"peers.{name}")
    batches = load_training(arguments.work, arguments.size, arguments.batches)
    if hasattr(peer, "training_round"):
        return peer.training_round(SIZES[arguments.size], arguments.dtype, variant, batches)
    train = peer.training_step(SIZES[arguments.size], arguments.dtype)

    def do_round() -> float:
        for batch in batches:
            loss = train(batch)
            if not 0.0 < loss < 20.0:
                raise RuntimeError(f"{name}: the loss is {loss}, expected nats per token")
        return sum(batch.target_tokens for batch in batches)

    return do_round


def _decoding(arguments: argparse.Namespace) -> Round:
    """Translates the fixed list of sentences, and checks the length of every translation."""
    name, _, variant = arguments.peer.partition("@")
    peer = importlib.import_module(f"peers.{name}")
    sources = load_sources(arguments.work, arguments.size, arguments.batches)
    if arguments.alone:
        sources = [batch[:1, : (batch[0] > 0).sum()] for batch in sources]
    decode = peer.decoder(arguments, SIZES[arguments.size], variant)

    def do_round() -> float:
        count = 0
        for translation in decode(sources):
            tokens = list(translation)
            if len(tokens) != OUTPUT_TOKENS or EOS_ID in tokens[:-1]:
                raise RuntimeError(
                    f"{name}: a translation is {tokens}, expected {OUTPUT_TOKENS} tokens"
                )
            count += 1
        if count != sum(map(len, sources)):
            raise RuntimeError(f"{name}: {count} translations of {sum(map(len, sources))}")
        return count

    return do_round


def _versions() -> dict[str, str]:
    """Versions of what has been imported, of the libraries that matter."""
    found: dict[str, Any] = {}
    for name in ("tensorflow", "keras", "torch", "transformers", "ctranslate2", "pymarian"):
        if name in sys.modules:
            found[name] = getattr(sys.modules[name], "__version__", "?")
    return {"python": sys.version.split()[0], **found}


_TASKS: dict[str, Callable[[argparse.Namespace], Round]] = {
    "training": _training,
    "decoding": _decoding,
}

if __name__ == "__main__":
    main()
