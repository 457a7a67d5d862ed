"""fairseq-train, which goes on being patient where it was killed; run by fairseq's own Python.

    python fairseq_train.py <best dev loss> <epochs since> <arguments of fairseq-train>

fairseq stops after so many epochs without a better dev loss, but counts them anew when it goes on
with a checkpoint.
"""

import sys

from fairseq_cli import train


def main() -> None:
    """Tells fairseq how patient it has been, and trains."""
    best, stale = float(sys.argv.pop(1)), int(sys.argv.pop(1))
    train.should_stop_early.best = best
    train.should_stop_early.num_runs = stale
    train.cli_main()


if __name__ == "__main__":
    main()
