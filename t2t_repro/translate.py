"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, whatever they hold and however many they are: they are read, translated and
written block by block. Without --input it reads standard input; where that is a terminal, and there
is no --output, it asks for a sentence at a time. With --output it may be killed at any time: the
same command goes on.
"""

import os
import sys

from absl import flags

from t2t_repro.command_line.block_work import Identity, Outputs, identity_of, work_in_blocks
from t2t_repro.command_line.flags import (
    define_ensemble,
    define_trained_model,
    find_checkpoint,
    load_translator,
)
from t2t_repro.command_line.line_blocks import AlignedTexts, LineBlock
from t2t_repro.command_line.path_flags import define_path
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import check_output, converse, written
from t2t_repro.errors import UserError

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the translation on its flags."""
    _check_flags()
    # What belongs to the lines, line by line, and what is written of them, each by its flag.
    inputs, outputs = {"input": FLAGS.input}, {"output": FLAGS.output}
    if FLAGS.alignments:
        outputs["alignments"] = FLAGS.alignments
    if FLAGS.prefix:
        inputs["prefix"] = FLAGS.prefix
    is_file_given = FLAGS.input or FLAGS.prefix or FLAGS.output
    is_asked = not is_file_given and sys.stdin.isatty()
    texts = None if is_asked else AlignedTexts(inputs)
    checkpoint = find_checkpoint()
    translator = load_translator(checkpoint, ensemble=FLAGS.ensemble)
    beam_size = translator.settings.search.beam_size
    if not 1 <= FLAGS.n_best <= beam_size:
        raise UserError(
            f"--n_best={FLAGS.n_best}: expected 1 to the beam size, {beam_size}; "
            "widen the beam with --gin_param='BeamSearch.beam_size = <n>', or draw more with "
            "--gin_param='Sampling.samples = <n>'."
        )

    def translated(block: LineBlock) -> Outputs:
        """What becomes of a block."""
        found = translator.translate(
            block.texts["input"], FLAGS.n_best, block.texts.get("prefix"), first=block.first
        )
        numbered = enumerate(found, block.first)
        lines = [line for number, some in numbered for line in written(number, some, FLAGS.scores)]
        if not FLAGS.alignments:
            return {"output": lines}
        pairs = zip(block.texts["input"], found, strict=True)
        sources = [source for source, some in pairs for _ in some]
        targets = [translation.text for some in found for translation in some]
        return {"output": lines, "alignments": translator.align(sources, targets)}

    if texts is None:
        converse(lambda lines: iter(translated(LineBlock(1, {"input": [*lines]}, ""))["output"]))
        return
    # Besides the input, and what gin binds, these determine what is written.
    determining = ["ensemble", "n_best", "scores", "alignments"]

    def identity() -> Identity:
        return identity_of(translator, checkpoint, determining)

    work_in_blocks("translate", texts, translated, outputs, identity)


def _check_flags() -> None:
    for flag in ("output", "alignments"):
        check_output(FLAGS[flag].value, flag)
    if FLAGS.alignments and not FLAGS.output:
        raise UserError("--alignments says nothing without translations: give --output too.")
    if FLAGS.alignments and os.path.abspath(FLAGS.alignments) == os.path.abspath(FLAGS.output):
        raise UserError("--alignments and --output are one file: give another to one of them.")
    if FLAGS.alignments and FLAGS.ensemble:
        raise UserError("--alignments asks one model, --ensemble several: leave one of them out.")


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    define_trained_model()
    define_ensemble()
    define_path("input", None, "A text file, plain or .gz; standard input by default.")
    define_path(
        "prefix",
        None,
        "A text file: how the translation of each line begins; blank lines: as it likes.",
    )
    define_path("output", None, "A text file; standard output by default.")
    define_path(
        "alignments", None, "A file for the word alignments of every translation, as in Pharaoh."
    )
    flags.DEFINE_integer("n_best", 1, "How many translations of each line.")
    flags.DEFINE_bool("scores", False, "Write 'line number <tab> score <tab> translation'.")
    run(main)


if __name__ == "__main__":
    cli()
