"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, read, translated and written block by block. Without --input it reads
standard input; at a terminal, without --output, it asks for sentences. With --output it can be
killed at any time: the same command goes on.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from absl import flags

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line import text_lines
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import Block, Outputs
from t2t_repro.decoding.search import log_cut
from t2t_repro.decoding.sentences import translate_split
from t2t_repro.errors import UserError
from t2t_repro.progress import Report

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the translation on its flags."""
    shared.split_language()
    for flag in ("output", "alignments"):
        text_lines.check_output(flag)
    if FLAGS.alignments and not text_lines.file_path(FLAGS.output):
        raise UserError("--alignments without translations: give a file as --output too.")
    inputs = {"input": FLAGS.input} | ({"prefix": FLAGS.prefix} if FLAGS.prefix else {})
    total = text_lines.count_lines(inputs)
    checkpoint = shared.find_checkpoint()
    translator = shared.load_translator(checkpoint)

    def translated(lines: Sequence[str]) -> Sequence[str]:
        return _translate(translator, Block(1, {"input": lines}))["output"]

    if not (FLAGS.input or FLAGS.prefix or FLAGS.output) and sys.stdin.isatty():
        text_lines.converse(translated)
        return
    outputs = {"output": FLAGS.output}
    if FLAGS.alignments:
        outputs["alignments"] = FLAGS.alignments
    used = ["ensemble", "n_best", "scores", "alignments", "split_sentences", "source_language"]
    settings = partial(shared.decoding_settings, translator, checkpoint, used)
    work = partial(_translate, translator)
    text_lines.work_in_blocks("translate", inputs, outputs, settings, work, total)


def _translate(translator: "Translator", block: Block, report: Report = None) -> Outputs:
    """Translates a block, and aligns the translations if --alignments is given."""
    sources = block.texts["input"]
    if (language := shared.split_language()) is not None:
        found = [[line] for line in translate_split(translator, sources, language, report)]
        log_cut([line for (line,) in found], block.first)
    else:
        found = translator.translate(
            sources, FLAGS.n_best, block.texts.get("prefix"), first=block.first, report=report
        )
    numbered = enumerate(found, block.first)
    lines = [
        line for number, some in numbered for line in text_lines.written(number, some, FLAGS.scores)
    ]
    if not FLAGS.alignments:
        return {"output": lines}
    by_line = zip(sources, found, strict=True)
    pairs = [(source, translation.text) for source, some in by_line for translation in some]
    return {"output": lines, "alignments": translator.align(*zip(*pairs, strict=True))}


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    shared.define_trained_model()
    shared.define_ensemble()
    shared.define_split()
    shared.define_path("input", "A text file, plain, .gz, .xz or .bz2; standard input by default.")
    shared.define_path("prefix", "A text file: the beginning of each translation; can be blank.")
    shared.define_path("output", "A text file; standard output by default.")
    shared.define_path("alignments", "A file for the word alignments, in Pharaoh's format.")
    flags.DEFINE_integer("n_best", 1, "Translations of each line.")
    scores = "Write 'line number <tab> score <tab> translation', marked if it is cut off."
    flags.DEFINE_bool("scores", False, scores)
    run(main)


if __name__ == "__main__":
    cli()
