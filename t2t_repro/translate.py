"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, whatever they hold. Without --input it reads standard input; where that is
a terminal, it asks for a sentence at a time.
"""

import sys
from collections.abc import Iterator, Sequence

from absl import flags

from t2t_repro import command_line
from t2t_repro.errors import UserError
from t2t_repro.text_lines import converse, read_input, write_output, written

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the translation on its flags."""
    lines = None if not FLAGS.input and sys.stdin.isatty() else read_input(FLAGS.input)
    translator = command_line.load_translator(
        command_line.find_checkpoint(), ensemble=FLAGS.ensemble
    )
    if not 1 <= FLAGS.n_best <= translator.search.beam_size:
        raise UserError(
            f"--n_best={FLAGS.n_best}: expected 1 to the beam size, {translator.search.beam_size}; "
            "widen the beam with --gin_param='BeamSearch.beam_size = <n>'."
        )

    def translated(lines: Sequence[str]) -> Iterator[str]:
        for number, found in enumerate(translator.translate(lines, FLAGS.n_best), start=1):
            yield from written(number, found, FLAGS.scores)

    if lines is None:
        converse(translated)
    else:
        write_output(translated(lines), FLAGS.output)


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    command_line.define_trained_model()
    command_line.define_ensemble()
    command_line.define_path("input", None, "A text file; standard input by default.")
    command_line.define_path("output", None, "A text file; standard output by default.")
    flags.DEFINE_integer("n_best", 1, "How many translations of each line.")
    flags.DEFINE_bool("scores", False, "Write 'line number <tab> score <tab> translation'.")
    command_line.run(main)


if __name__ == "__main__":
    cli()
