"""Training throughput beside the peers', on the same batches, in alternation.

    python benchmarks/training.py --sizes=base --dtypes=float32 --peers=ours,hugging_face --rounds=3

Target tokens a second, PAD not counted; label smoothing 0.1, dropout, Adam; the loss of every step
is read. One JSON line a result is appended to --output; `tables.py` makes the table.
"""

import argparse

from alternation import add_arguments, measure, write_results
from work import load_training

PEERS = "ours,opennmt_tf,hugging_face"
_BATCHES = {"base": 8, "base_32k": 8, "tiny": 16, "smoke": 4}


def main() -> None:
    """Measures every size and dtype that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS)
    arguments = parser.parse_args()
    for size in arguments.sizes:
        for dtype in arguments.dtypes:
            _measure_case(arguments, size, dtype)


def _measure_case(arguments: argparse.Namespace, size: str, dtype: str) -> None:
    count = arguments.batches or _BATCHES[size]
    batches = load_training(arguments.work, size, count)
    tokens = sum(batch.target_tokens for batch in batches)
    print(f"training {size} {dtype}: {tokens:,} target tokens a round", flush=True)
    options = ["--task=training", f"--size={size}", f"--batches={count}"]
    measured = measure(arguments, arguments.peers.split(","), dtype, options)
    labels = {"benchmark": "training", "case": f"{size} {dtype}", "unit": "target tokens/s"}
    write_results(arguments.output, measured, labels)


if __name__ == "__main__":
    main()
