"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, read, translated and written block by block. Without --input it reads
standard input; at a terminal, without --output, it asks for sentences. With --output it can be
killed at any time: the same command goes on. --file=messages.po fills what is untranslated there.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags, logging

from t2t_repro.command_line import flags as shared
from t2t_repro.command_line import text_lines
from t2t_repro.command_line.program import run
from t2t_repro.command_line.text_lines import Block, Outputs
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.litert import LiteRTTranslator
from t2t_repro.decoding.search import log_cut
from t2t_repro.decoding.sentences import translate_split
from t2t_repro.documents import po, running_text, xml
from t2t_repro.documents.edits import filled, read_text, sound_text, without_key
from t2t_repro.errors import UserError
from t2t_repro.progress import Report

FLAGS = flags.FLAGS

# The functions that fill files with translations, by the ends of the files' names.
_FILLS = dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), xml.fill)
_FILLS |= {".po": po.fill, ".pot": po.fill, ".srt": running_text.fill_subtitles}
_FILLS |= {".html": running_text.fill_html, ".htm": running_text.fill_html}
# The flags that determine the output, besides those of the model.
_USED = ["ensemble", "n_best", "scores", "alignments", "split_sentences", "source_language", "tag"]
# Texts of a file in a block; a kill loses one block.
_UNITS = 128


def main() -> None:
    """Translates --file or --input, or what the user types."""
    _check_flags()
    if FLAGS.file:
        _translate_file(Path(FLAGS.file))
        return
    inputs = {"input": FLAGS.input} | ({"prefix": FLAGS.prefix} if FLAGS.prefix else {})
    total = text_lines.count_lines(inputs)
    engine, settings = _load_engine()
    work = partial(_translate, engine)
    has_files = FLAGS.input or FLAGS.prefix or FLAGS.output
    if not has_files and sys.stdin.isatty() and sys.stdout.isatty():
        text_lines.converse(lambda lines: work(Block(1, {"input": lines}))["output"])
        return
    alignments = {"alignments": FLAGS.alignments} if FLAGS.alignments else {}
    outputs = {"output": FLAGS.output} | alignments
    blocks = text_lines.read_blocks(inputs)
    text_lines.work_in_blocks("translate", blocks, outputs, settings, work, total)


def _check_flags() -> None:
    """Checks the flags before the model is loaded; turns --split_sentences on for --file.

    Raises:
        UserError: flags contradict each other, one is missing, or an output cannot be written.
    """
    if FLAGS.file:
        shared.check_alone("file", "input", "n_best", "scores", "alignments", "prefix")
        # As if it were given: a unit of a file may hold several sentences.
        FLAGS["split_sentences"].value = True
    elif FLAGS.tag:
        raise UserError("--tag without --file: write the tag in front of each line.")
    shared.split_language()  # Only for its errors.
    shared.check_model_flags()
    for flag in ("output", "alignments"):
        text_lines.check_output(flag)
    if FLAGS.alignments and not text_lines.file_path(FLAGS.output):
        raise UserError("--alignments without translations: give a file as --output too.")


def _translate_file(path: Path) -> None:
    """Writes a copy of a file to --output, with translations in its untranslated units.

    Two passes over the file: the first collects the texts, the second fills in their translations.
    Units stay untranslated if their marks, such as placeholders, do not survive translation.

    Raises:
        UserError: the file is of another format, or --output is not a file.
    """
    fill = _FILLS.get(path.suffix.lower())
    # One message for both: it says what --file needs.
    if not fill or not text_lines.file_path(FLAGS.output):
        raise UserError(f"--file={path}: expected {', '.join(_FILLS)}, and a file as --output.")
    content, encoding = read_text(path)
    fill_units = partial(fill, path, content)
    # Keys keep their order, and have each text once; the value "" leaves its units as they are.
    collected: dict[str, str] = {}
    units = [*fill_units(lambda text: collected.setdefault(text, ""))]
    texts = [*collected]
    engine, settings = _load_engine()
    # What characters translations may have. HTML and XML have all: those that the file's encoding
    # lacks are written as numbers (&#233;).
    codec = "utf-8" if fill in (xml.fill, running_text.fill_html) else encoding

    def write(translations: Iterable[str], output: str | None) -> None:
        translation_of = dict(zip(texts, translations, strict=True))
        # The same units as in the first pass; those without edits stay untranslated.
        edits_by_unit = [*fill_units(translation_of.__getitem__)]
        edited = filled(content, (edit for edits in edits_by_unit for edit in edits))
        text_lines.write_content([edited.encode(encoding, "xmlcharrefreplace")], output)
        left = edits_by_unit.count([])
        logging.info(f"{output}: {len(units) - left} filled, {left} left: the model broke them")

    blocks = (Block(n + 1, {"input": texts[n : n + _UNITS]}) for n in range(0, len(texts), _UNITS))
    outputs = {"output": FLAGS.output}
    work = partial(_translate_units, engine, codec)
    text_lines.work_in_blocks("translate", blocks, outputs, settings, work, len(texts), write)


def _translate_units(engine: Engine, codec: str, block: Block, report: Report) -> Outputs:
    """Translates a block of a file's texts; "" is the output of one that stays untranslated.

    Translations with a character that `codec` lacks are not used (see `sound_text`).
    """
    inputs = block.texts["input"]
    texts = [_with_tag(without_key(text)) for text in inputs]
    translations = translate_split(engine, texts, FLAGS.source_language, report)
    pairs = zip(inputs, translations, strict=True)
    return {"output": [sound_text(text, translation, codec) for text, translation in pairs]}


def _with_tag(text: str) -> str:
    """Returns a text with --tag, if given, after its leading white space, which would get lost."""
    tag = f"{FLAGS.tag} " if FLAGS.tag else ""
    return text.replace(text.lstrip(), tag + text.lstrip(), 1)


def _load_engine() -> tuple[Engine, Callable[[], Mapping[str, Any]]]:
    """Loads the engine of --litert or --model_dir.

    Returns:
        it, and a function that returns the settings that determine its output.

    Raises:
        UserError: the model cannot be used, or does not align words, for --alignments.
    """
    if FLAGS.litert:
        engine = LiteRTTranslator(Path(FLAGS.litert))
        return engine, partial(shared.litert_settings, engine.path, _USED)
    checkpoint = shared.find_checkpoint()
    translator = shared.load_translator(checkpoint)
    if FLAGS.alignments:
        translator.align([], [])  # Only for its error.
    return translator, partial(shared.decoding_settings, translator, checkpoint, _USED)


def _translate(engine: Engine, block: Block, report: Report = None) -> Outputs:
    """Translates a block of lines, whole or by sentences; returns the lines of the output files.

    Those of --alignments are the word alignments of the lines of --output.
    """
    sources = block.texts["input"]
    if (language := shared.split_language()) is not None:
        translations = translate_split(engine, sources, language, report)
        log_cut(translations, block.first)
        lists = [[translation] for translation in translations]
    else:
        prefixes = block.texts.get("prefix")
        lists = engine.translate(sources, FLAGS.n_best, prefixes, first=block.first, report=report)
    lines: list[str] = []
    for number, nbest in enumerate(lists, start=block.first):
        lines += text_lines.output_lines(number, nbest, FLAGS.scores)
    # The model aligns words if --alignments is given: `_load_engine` has checked it.
    if not (FLAGS.alignments and engine.align):
        return {"output": lines}
    # Each output line is aligned: a source is repeated for each of its translations.
    repeated = [source for source, nbest in zip(sources, lists, strict=True) for _ in nbest]
    texts = [translation.text for nbest in lists for translation in nbest]
    return {"output": lines, "alignments": engine.align(repeated, texts)}


def cli() -> None:
    """Defines the flags, reads the command line, and translates."""
    shared.define_trained_model(is_required=False)
    shared.define_litert()
    shared.define_glossary()
    shared.define_ensemble()
    shared.define_split()
    shared.define_path("input", "A text file, plain, .gz, .xz or .bz2; standard input by default.")
    shared.define_path("file", "A .po, .xliff, .srt or .html file, to fill what is untranslated.")
    shared.define_path("prefix", "A text file: the beginning of each translation; can be blank.")
    shared.define_path("output", "A text file; standard output by default.")
    shared.define_path("alignments", "A file for the word alignments, in Pharaoh's format.")
    flags.DEFINE_string("tag", None, "The model's code of a target language, for --file: >>deu<<.")
    flags.DEFINE_integer("n_best", 1, "Translations of each line.", lower_bound=1)
    flags.DEFINE_bool("scores", False, "With line number and score, by tabs; marked if cut off.")
    run(main)


if __name__ == "__main__":
    cli()
