"""Decoding throughput beside the peers', on the same sentences, in alternation.

    python benchmarks/decoding.py --sizes=base --dtypes=float32 --beams=4 --peers=ours,hugging_face

Sentences a second: real ones, 32 a batch, shortest first, exactly 24 output tokens each; random
weights. One JSON line a result is appended to --output; `tables.py` makes the table.
"""

import argparse

from alternation import add_arguments, measure, write_results
from work import load_sources

PEERS = "ours,ours@whole,ours@saved_model,ctranslate2@1x2,ctranslate2@2x1,opennmt_tf,hugging_face"


def main() -> None:
    """Measures every size, dtype and beam that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS)
    parser.add_argument("--beams", default="4,1")
    alone = "the first sentence of every batch, by itself; with taskset -c 0"
    parser.add_argument("--alone", action="store_true", help=alone)
    arguments = parser.parse_args()
    for size in arguments.sizes:
        for dtype in arguments.dtypes:
            for beam in map(int, arguments.beams.split(",")):
                _measure_case(arguments, size, dtype, beam)


def _measure_case(arguments: argparse.Namespace, size: str, dtype: str, beam: int) -> None:
    sources = load_sources(arguments.work, size, arguments.batches)
    count = len(sources) if arguments.alone else sum(map(len, sources))
    print(f"decoding {size} {dtype} beam {beam}: {count} sentences a round", flush=True)
    options = ["--task=decoding", f"--size={size}", f"--beam={beam}"]
    options += [f"--batches={arguments.batches}"] * bool(arguments.batches)
    options += ["--alone"] * arguments.alone
    measured = measure(arguments, arguments.peers.split(","), dtype, options)
    case = f"{size} {dtype} beam {beam}" + " alone" * arguments.alone
    labels = {"benchmark": "decoding", "case": case, "unit": "sentences/s"}
    write_results(arguments.output, measured, labels)


if __name__ == "__main__":
    main()
