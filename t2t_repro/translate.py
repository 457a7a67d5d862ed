"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, read, translated and written block by block. Without --input it reads
standard input; at a terminal, without --output, it asks for sentences. With --output it can be
killed at any time: the same command goes on.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags, logging

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line.program import run
from t2t_repro.command_line.resumable_lines import Block, Outputs, count_lines, work_in_blocks
from t2t_repro.command_line.text_lines import check_output, converse, file_path, written
from t2t_repro.decoding.sentences import Row, translate_split
from t2t_repro.errors import UserError

if TYPE_CHECKING:
    from t2t_repro.decoding.translator import Translator

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the translation on its flags."""
    _check_flags()
    inputs = {"input": FLAGS.input} | ({"prefix": FLAGS.prefix} if FLAGS.prefix else {})
    total = count_lines(inputs)
    checkpoint = shared.find_checkpoint()
    translator = shared.load_translator(checkpoint, ensemble=FLAGS.ensemble)
    search = translator.settings.search
    beam_size = search.beam_size
    if not 1 <= FLAGS.n_best <= beam_size:
        width = "samples" if hasattr(search, "samples") else "beam_size"
        raise UserError(
            f"--n_best={FLAGS.n_best}: expected 1 to the beam size, {beam_size}; widen the beam "
            f"with --gin_param='{type(search).__name__}.{width} = <n>'."
        )

    def translated(lines: Sequence[str]) -> Sequence[str]:
        return _translate(translator, Block(1, {"input": lines}))["output"]

    if not (FLAGS.input or FLAGS.prefix or FLAGS.output) and sys.stdin.isatty():
        converse(translated)
        return
    aligned = {"alignments": FLAGS.alignments} if FLAGS.alignments else {}
    used = ["ensemble", "n_best", "scores", "alignments", "split_sentences", "source_language"]
    work_in_blocks(
        "translate",
        inputs,
        {"output": FLAGS.output, **aligned},
        lambda: shared.decoding_settings(translator, checkpoint, used),
        lambda block: _translate(translator, block),
        total,
    )


def _translate(translator: "Translator", block: Block) -> Outputs:
    """Translates a block, and aligns the translations if --alignments is given."""
    sources = block.texts["input"]
    if (language := shared.split_language()) is not None:
        rows = translate_split(translator, sources, language)
        return {"output": list(_written(rows, block.first))}
    prefixes = block.texts.get("prefix")
    found = translator.translate(sources, FLAGS.n_best, prefixes, first=block.first)
    numbered = enumerate(found, block.first)
    lines = [line for number, some in numbered for line in written(number, some, FLAGS.scores)]
    if not FLAGS.alignments:
        return {"output": lines}
    by_line = zip(sources, found, strict=True)
    pairs = [(source, one.text) for source, some in by_line for one in some]
    return {"output": lines, "alignments": translator.align(*zip(*pairs, strict=True))}


def _written(rows: Sequence[Row], first: int) -> Iterator[str]:
    """Yields the lines of a block that was split, and warns of words that were cut off."""
    for number, row in enumerate(rows, first):
        if row.truncated:
            logging.warning("line %d: only the beginning of a long word is used", number)
        yield from written(number, [(*row[:2], row.finished)], FLAGS.scores)


def _check_flags() -> None:
    shared.split_language()
    for flag in ("output", "alignments"):
        check_output(flag)
    if FLAGS.alignments and not file_path(FLAGS.output):
        raise UserError("--alignments without translations: give a file as --output too.")
    if FLAGS.alignments and FLAGS.ensemble:
        raise UserError("--alignments uses one model, --ensemble several: leave one of them out.")


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    shared.define_trained_model()
    shared.define_ensemble()
    shared.define_split()
    shared.define_path(
        "input", None, "A text file, plain, .gz, .xz or .bz2; standard input by default."
    )
    shared.define_path(
        "prefix", None, "A text file: the beginning of each translation; can be blank."
    )
    shared.define_path("output", None, "A text file; standard output by default.")
    shared.define_path("alignments", None, "A file for the word alignments, in Pharaoh's format.")
    flags.DEFINE_integer("n_best", 1, "Translations of each line.")
    scores = "Write 'line number <tab> score <tab> translation', marked if it is cut off."
    flags.DEFINE_bool("scores", False, scores)
    run(main)


if __name__ == "__main__":
    cli()
