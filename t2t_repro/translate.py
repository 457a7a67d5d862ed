"""Translates text: `python -m t2t_repro.translate --model_dir=... < source.txt > target.txt`.

N lines in, N lines out, whatever they hold. Without --input it reads standard input; where that is
a terminal, it asks for a sentence at a time.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from absl import flags

from t2t_repro import command_line
from t2t_repro.errors import UserError

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the translation on its flags."""
    lines = None if not FLAGS.input and sys.stdin.isatty() else read_input(FLAGS.input)
    from t2t_repro import experiment

    translator = experiment.load_translator(
        Path(FLAGS.model_dir), FLAGS.gin_param, FLAGS.checkpoint
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


def read_input(path: str | None) -> list[str]:
    r"""Reads the lines of a file, or of standard input; only \n ends a line.

    Raises:
        UserError: the file is not there, or is not UTF-8.
    """
    name = path or "standard input"
    try:
        data = Path(path).read_bytes() if path else sys.stdin.buffer.read()
    except OSError as error:
        raise UserError(f"--input={path}: {error.strerror}; expected a text file.") from error
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: byte {error.start} is not UTF-8 ({error.reason}); "
                "expected UTF-8 text: convert it, e.g. with iconv."
            ) from error
    return texts


def write_output(lines: Iterator[str], path: str | None) -> None:
    """Writes lines to standard output, or to a file that appears whole or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    if not path:
        for line in lines:
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
        sys.stdout.flush()
        return
    aside = Path(f"{path}.partial")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
        os.replace(aside, path)
    except OSError as error:
        raise UserError(f"--output={path}: {error.strerror}; expected a writable path.") from error
    finally:
        aside.unlink(missing_ok=True)


def written(number: int, found: Iterable[tuple[str, float]], scores: bool) -> Iterator[str]:
    """The lines of output of a line of input.

    Args:
        number: of the line, from 1.
        found: its translations and their scores.
        scores: whether numbers and scores are written.
    """
    for text, score in found:
        text = text.replace("\n", " ")
        yield f"{number}\t{score:.4f}\t{text}" if scores else text


def converse(translated: Callable[[Sequence[str]], Iterator[str]]) -> None:
    """Asks for sentences at a terminal until there is none, and prints what becomes of each.

    Args:
        translated: the lines to print for lines of input.
    """
    print("A sentence a line; an empty line ends.", file=sys.stderr)
    while True:
        try:
            line = input("source> ")
        except (EOFError, KeyboardInterrupt):
            return
        if not line.strip():
            return
        for text in translated([line]):
            print(text)


if __name__ == "__main__":
    command_line.define_model_dir()
    flags.DEFINE_string("checkpoint", None, "averaged, best, latest or checkpoints/step-<n>.")
    flags.DEFINE_string("input", None, "A text file; standard input by default.")
    flags.DEFINE_string("output", None, "A text file; standard output by default.")
    flags.DEFINE_integer("n_best", 1, "How many translations of each line.")
    flags.DEFINE_bool("scores", False, "Write 'line number <tab> score <tab> translation'.")
    command_line.run(main)
